# The cases of the conformance suite (tests/conformance), compressed, in generated/conformance.c for
# 'abx provider test'.
set(_suite ${CMAKE_SOURCE_DIR}/tests/conformance)
file(GLOB _cases CONFIGURE_DEPENDS ${_suite}/cases/*.json)
configure_file(cmake/conformance.h ${ABX_GENERATED}/conformance.h COPYONLY)
add_custom_command(OUTPUT ${ABX_GENERATED}/conformance.c
    COMMAND ${CMAKE_COMMAND} -DDIR=${_suite} -DOUT=${ABX_GENERATED}/conformance.c
        -P ${CMAKE_SOURCE_DIR}/cmake/conformance.cmake
    DEPENDS ${_suite}/suite.json ${_cases} cmake/conformance.cmake cmake/pack.cmake cmake/packed.c.in VERBATIM)
add_library(abx_conformance STATIC ${ABX_GENERATED}/conformance.c)
target_link_libraries(abx_conformance PRIVATE abx_flags abx_deps)
