# The program: build/PRESET/abx, one file, everything inside.
set(_main src/doors/cli/main.c)
if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${_main})
    message(STATUS "no ${_main} yet: the program is not built")
    return()
endif()
add_executable(abx ${_main})
target_link_libraries(abx PRIVATE abx_doors_cli abx_doors_e2b abx_doors_engine abx_licenses abx_conformance)
abx_static(abx)
add_dependencies(abx abx_generated)
set_target_properties(abx PROPERTIES LINKER_LANGUAGE CXX)

# OpenSSL's tables are relocated when they are needed (src/base/openssl_tables.h).
abx_relocate_late(abx)

# abx.debug keeps the symbols for gdb and perf, which find it by its name.
if(ABX_STRIP)
    add_custom_command(TARGET abx POST_BUILD VERBATIM WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
        COMMAND ${CMAKE_OBJCOPY} --only-keep-debug abx abx.debug
        COMMAND ${CMAKE_STRIP} abx
        COMMAND ${CMAKE_OBJCOPY} --add-gnu-debuglink=abx.debug abx)
endif()
