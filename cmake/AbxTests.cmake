# Test, bench and fuzz programs, found by their names:
#     tests/unit/test_*.c    cmocka, linked to every area, registered with ctest; tests/unit/*.c and *.h
#                            with other names are shared by all of them
#     tests/capi/test_*.c    cmocka, linked to libabx.so alone; door.c: a door of the conformance suite, likewise
#     tests/e2e/*.c          small programs that the end-to-end tests start; secret_parent and node_host are linked to
#                            the adapters and what is below them, envd_serve to local and below,
#                            tls_get to net and below
#     tests/e2e/probe/*.c    one program of attacks by name, for the escape suite
#     tests/e2e/shim/*.c     libraries that are preloaded into the program
#     tests/bench/*.c        bench programs, linked to every area
#     tests/fuzz/fuzz_*.c    libFuzzer targets, linked to every area

function(abx_program source folder)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/${folder})
    target_compile_definitions(${name} PRIVATE
        ABX_TESTS_DIR="${CMAKE_SOURCE_DIR}/tests" ABX_BUILD_DIR="${CMAKE_BINARY_DIR}")
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder})
    add_dependencies(${name} abx_generated)
endfunction()

find_library(ABX_CMOCKA cmocka)
if(ABX_TESTS)
    enable_testing()
    find_path(ABX_CMOCKA_INCLUDE cmocka.h)
    if(NOT ABX_CMOCKA_INCLUDE OR NOT ABX_CMOCKA)
        message(FATAL_ERROR "missing packages; on Debian: apt-get install libcmocka-dev")
    endif()
    file(GLOB _shared CONFIGURE_DEPENDS tests/unit/*.c)
    list(FILTER _shared EXCLUDE REGEX "/test_[^/]*$")
    set(_support "")
    if(_shared)
        add_library(abx_test_support STATIC ${_shared})
        target_link_libraries(abx_test_support PUBLIC abx_doors_cli ${ABX_CMOCKA})
        set(_support abx_test_support)
    endif()
    file(GLOB _unit CONFIGURE_DEPENDS tests/unit/test_*.c)
    foreach(_source IN LISTS _unit)
        get_filename_component(_name ${_source} NAME_WE)
        abx_program(${_source} unit ${_support} abx_doors_cli abx_licenses abx_conformance ${ABX_CMOCKA})
        add_test(NAME ${_name} COMMAND ${_name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
        set_tests_properties(${_name} PROPERTIES TIMEOUT 120)
    endforeach()
    if(TARGET libabx)
        file(GLOB _capi CONFIGURE_DEPENDS tests/capi/test_*.c)
        foreach(_source IN LISTS _capi)
            get_filename_component(_name ${_source} NAME_WE)
            abx_program(${_source} capi abx_flags libabx ${ABX_CMOCKA})
            add_test(NAME ${_name} COMMAND ${_name})
            set_tests_properties(${_name} PROPERTIES TIMEOUT 120)
        endforeach()
    endif()
endif()

file(GLOB _helpers CONFIGURE_DEPENDS tests/e2e/*.c)
foreach(_source IN LISTS _helpers)
    abx_program(${_source} e2e abx_flags Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
target_link_libraries(secret_parent PRIVATE abx_adapters) # a program with the house inside, as libabx will be
target_link_libraries(node_host PRIVATE abx_adapters)
target_link_libraries(envd_serve PRIVATE abx_local)
target_link_libraries(envd_call PRIVATE abx_e2b)
target_link_libraries(tls_get PRIVATE abx_net)
target_link_libraries(js_run PRIVATE abx_jshost)
abx_static(tls_get)
abx_relocate_late(tls_get)
file(GLOB _probe CONFIGURE_DEPENDS tests/e2e/probe/*.c)
list(FILTER _probe EXCLUDE REGEX "/probe\\.c$")
abx_program(tests/e2e/probe/probe.c e2e abx_flags ${ABX_LIB_seccomp})
target_sources(probe PRIVATE ${_probe})
foreach(_name fail_at slow_unlink)
    add_library(${_name} MODULE tests/e2e/shim/${_name}.c)
    target_link_libraries(${_name} PRIVATE abx_flags)
    target_compile_options(${_name} PRIVATE -Wno-missing-prototypes)
    set_target_properties(${_name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/e2e)
endforeach()

if(TARGET libabx)
    abx_program(tests/capi/door.c capi abx_flags libabx)
    file(GLOB _examples CONFIGURE_DEPENDS examples/c/*.c)
    foreach(_source IN LISTS _examples)
        get_filename_component(_name ${_source} NAME_WE)
        add_executable(example_${_name} ${_source})
        target_link_libraries(example_${_name} PRIVATE abx_flags libabx)
        set_target_properties(example_${_name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/capi)
        if(ABX_SANITIZE) # clang's sanitizers keep a part of themselves for C++, which the library asks for
            set_target_properties(example_${_name} PROPERTIES LINKER_LANGUAGE CXX)
        endif()
    endforeach()
    # The threads of the library under ThreadSanitizer: its door and the thread that starts children are watched, what lies below them
    # is behind the context's lock.
    if(ABX_CMOCKA AND NOT ABX_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        file(GLOB _watched CONFIGURE_DEPENDS src/doors/capi/*.c)
        abx_program(tests/capi/test_capi_threads.c capi abx_adapters abx_host ${ABX_CMOCKA})
        set_target_properties(test_capi_threads PROPERTIES OUTPUT_NAME threads_tsan)
        target_sources(test_capi_threads PRIVATE ${_watched} src/net/keeper.c)
        target_compile_options(test_capi_threads PRIVATE -fsanitize=thread -O1 -g -U_FORTIFY_SOURCE)
        target_link_options(test_capi_threads PRIVATE -fsanitize=thread)
    endif()
endif()

# The program with the machine's glibc, into which libraries can be loaded (shim).
add_executable(abx_shared_libc src/doors/cli/main.c)
target_link_libraries(abx_shared_libc PRIVATE abx_doors_cli abx_doors_e2b abx_doors_engine abx_licenses abx_conformance)
add_dependencies(abx_shared_libc abx_generated)
set_target_properties(abx_shared_libc PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/e2e)

# The program with a catalog of the tests.
abx_catalog_source(${CMAKE_SOURCE_DIR}/tests/data/catalog ${ABX_GENERATED}/catalog_test.c)
add_executable(abx_with_catalog src/doors/cli/main.c ${ABX_GENERATED}/catalog_test.c)
target_link_libraries(abx_with_catalog PRIVATE abx_doors_cli abx_doors_e2b abx_doors_engine abx_licenses abx_conformance)
add_dependencies(abx_with_catalog abx_generated)
set_target_properties(abx_with_catalog PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/e2e)

# The program with a native function for modules that tries what a module's process may not do.
add_executable(abx_with_probe src/doors/cli/main.c tests/e2e/js_probe.c)
target_compile_definitions(abx_with_probe PRIVATE ABX_PROBE_INSIDE)
target_link_libraries(abx_with_probe PRIVATE abx_doors_cli abx_doors_e2b abx_doors_engine abx_licenses abx_conformance)
add_dependencies(abx_with_probe abx_generated)
abx_static(abx_with_probe)
set_target_properties(abx_with_probe PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/e2e)

if(ABX_BENCH)
    file(GLOB _bench CONFIGURE_DEPENDS tests/bench/*.c)
    foreach(_source IN LISTS _bench)
        abx_program(${_source} bench abx_doors_cli abx_licenses abx_conformance)
    endforeach()
endif()

if(ABX_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "the fuzz targets need clang: cmake --preset fuzz")
    endif()
    file(GLOB _fuzz CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
    foreach(_source IN LISTS _fuzz)
        abx_program(${_source} fuzz abx_doors_cli abx_licenses abx_conformance)
        get_filename_component(_name ${_source} NAME_WE)
        target_compile_options(${_name} PRIVATE -Wno-missing-prototypes)
        target_link_options(${_name} PRIVATE -fsanitize=fuzzer)
    endforeach()
    target_link_libraries(fuzz_e2b_port PRIVATE abx_doors_e2b)
endif()
