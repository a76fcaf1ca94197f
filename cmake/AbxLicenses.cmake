# The licence texts of all that is linked in: one file each in build/PRESET/licenses (installed), and all
# of them, compressed, in generated/licenses.c for 'abx version --licenses'.
set(ABX_LICENSE_DIR ${CMAKE_BINARY_DIR}/licenses)
file(MAKE_DIRECTORY ${ABX_LICENSE_DIR})

# abx_license(NAME FILE...): the first FILE that exists is the text of NAME.
function(abx_license name)
    foreach(from IN LISTS ARGN)
        if(EXISTS ${from})
            configure_file(${from} ${ABX_LICENSE_DIR}/${name}.txt COPYONLY)
            set_property(GLOBAL APPEND PROPERTY ABX_LICENSES ${name})
            return()
        endif()
    endforeach()
    message(FATAL_ERROR "no licence text of ${name}: looked for ${ARGN}")
endfunction()

set(_src ${ABX_DEPS}/src)
set(_doc /usr/share/doc)
abx_license(abx ${CMAKE_SOURCE_DIR}/LICENSE)
abx_license(ada ${_src}/ada-url/LICENSE-MIT)
abx_license(curl ${_src}/curl-sys/curl/COPYING)
abx_license(glibc ${_doc}/libc6-dev/copyright ${_doc}/libc6/copyright /usr/share/licenses/glibc/COPYING.LIB)
abx_license(libarchive ${_doc}/libarchive-dev/copyright /usr/share/licenses/libarchive/COPYING)
abx_license(libseccomp /usr/share/common-licenses/LGPL-2.1 /usr/share/licenses/libseccomp/LICENSE)
abx_license(libstdc++ ${_doc}/libstdc++-12-dev/copyright ${_doc}/gcc-12-base/copyright
    /usr/share/licenses/gcc-libs/RUNTIME.LIBRARY.EXCEPTION)
abx_license(libuv ${_src}/libuv-sys2/libuv/LICENSE)
abx_license(libuv-extra ${_src}/libuv-sys2/libuv/LICENSE-extra)
abx_license(llhttp ${_src}/libnghttp2-sys/nghttp2/third-party/llhttp/LICENSE)
abx_license(openssl ${_doc}/libssl-dev/copyright /usr/share/licenses/openssl/LICENSE)
abx_license(quickjs-ng ${_src}/rquickjs-sys/quickjs/LICENSE)
abx_license(tomlplusplus ${_doc}/libtomlplusplus-dev/copyright /usr/share/licenses/tomlplusplus/LICENSE)
abx_license(wslay ${_src}/wslay-sys/vendor/COPYING)
abx_license(yyjson ${_src}/yyjson-sys/yyjson/LICENSE)
abx_license(zstd ${_doc}/libzstd-dev/copyright /usr/share/licenses/zstd/LICENSE)
abx_license(zlib ${_src}/libz-sys/src/zlib/LICENSE)

get_property(_names GLOBAL PROPERTY ABX_LICENSES)
set(_files "")
foreach(_name IN LISTS _names)
    list(APPEND _files ${ABX_LICENSE_DIR}/${_name}.txt)
endforeach()
configure_file(cmake/licenses.h ${ABX_GENERATED}/licenses.h COPYONLY)
add_custom_command(OUTPUT ${ABX_GENERATED}/licenses.c
    COMMAND ${CMAKE_COMMAND} -DDIR=${ABX_LICENSE_DIR} "-DNAMES=${_names}" -DOUT=${ABX_GENERATED}/licenses.c
        -P ${CMAKE_SOURCE_DIR}/cmake/licenses.cmake
    DEPENDS ${_files} cmake/licenses.cmake cmake/pack.cmake cmake/packed.c.in VERBATIM)
add_library(abx_licenses STATIC ${ABX_GENERATED}/licenses.c)
target_link_libraries(abx_licenses PRIVATE abx_flags abx_deps)
