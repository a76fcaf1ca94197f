# Headers made during the build, in build/PRESET/generated:
#     abx_build.h      ABX_VERSION, ABX_COMMIT, ABX_PLATFORM
#     licenses.h/.c    the licence texts of all that is linked in, compressed
#     conformance.h/.c the cases of the conformance suite, compressed
#     seccomp_table.h  the sandbox's system call filter, made by src/local/gen
#     kernels.h        the kernels of src/local/kernels as bytes
#     js_compiled.h    the JavaScript of src/jshost/js as bytecode
set(ABX_GENERATED ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${ABX_GENERATED})

string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" ABX_PLATFORM)
add_custom_target(abx_build_header
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${ABX_GENERATED}/abx_build.h
        -DVERSION=${PROJECT_VERSION} -DPLATFORM=${ABX_PLATFORM}
        -P ${CMAKE_SOURCE_DIR}/cmake/build_header.cmake
    BYPRODUCTS ${ABX_GENERATED}/abx_build.h VERBATIM)
add_custom_target(abx_generated)
add_dependencies(abx_generated abx_build_header)

include(AbxLicenses)
include(AbxConformance)

file(GLOB _kernels CONFIGURE_DEPENDS src/local/kernels/*)
add_custom_command(OUTPUT ${ABX_GENERATED}/kernels.h
    COMMAND ${CMAKE_COMMAND} -DDIR=${CMAKE_SOURCE_DIR}/src/local/kernels
        -DOUT=${ABX_GENERATED}/kernels.h -P ${CMAKE_SOURCE_DIR}/cmake/kernels.cmake
    DEPENDS ${_kernels} ${CMAKE_SOURCE_DIR}/cmake/kernels.cmake VERBATIM)
add_custom_target(abx_kernels DEPENDS ${ABX_GENERATED}/kernels.h)
add_dependencies(abx_generated abx_kernels)

file(GLOB _gen CONFIGURE_DEPENDS src/local/gen/*.c)
if(_gen)
    add_executable(abx_seccomp_gen ${_gen})
    target_compile_options(abx_seccomp_gen PRIVATE ${ABX_C_WARNINGS})
    target_compile_definitions(abx_seccomp_gen PRIVATE _GNU_SOURCE)
    target_include_directories(abx_seccomp_gen PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(abx_seccomp_gen PRIVATE ${ABX_LIB_seccomp})
    add_custom_command(OUTPUT ${ABX_GENERATED}/seccomp_table.h
        COMMAND abx_seccomp_gen > ${ABX_GENERATED}/seccomp_table.h.part
        COMMAND ${CMAKE_COMMAND} -E rename ${ABX_GENERATED}/seccomp_table.h.part
            ${ABX_GENERATED}/seccomp_table.h
        DEPENDS abx_seccomp_gen)
    add_custom_target(abx_seccomp_table DEPENDS ${ABX_GENERATED}/seccomp_table.h)
    add_dependencies(abx_generated abx_seccomp_table)
endif()

# The runtime's own JavaScript as bytecode of the engine that is linked in.
file(GLOB _js CONFIGURE_DEPENDS src/jshost/js/*.js)
if(_js)
    add_executable(abx_js_compile src/jshost/gen/compile.c)
    target_compile_options(abx_js_compile PRIVATE ${ABX_C_WARNINGS})
    target_compile_definitions(abx_js_compile PRIVATE _GNU_SOURCE)
    target_include_directories(abx_js_compile SYSTEM PRIVATE ${ABX_DEPS}/include)
    target_link_libraries(abx_js_compile PRIVATE ${ABX_DEPS}/lib/libquickjs.a m Threads::Threads)
    set(_args "")
    foreach(_file IN LISTS _js)
        get_filename_component(_name ${_file} NAME_WE)
        list(APPEND _args ${_name} ${_file})
    endforeach()
    add_custom_command(OUTPUT ${ABX_GENERATED}/js_compiled.h
        COMMAND abx_js_compile ${ABX_GENERATED}/js_compiled.h ${_args}
        DEPENDS abx_js_compile ${_js} VERBATIM)
    add_custom_target(abx_js_compiled DEPENDS ${ABX_GENERATED}/js_compiled.h)
    add_dependencies(abx_generated abx_js_compiled)
endif()
