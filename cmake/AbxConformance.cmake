# What `abx provider` carries, compressed: the cases of the conformance suite (tests/conformance) in generated/conformance.c,
# the plugin folders of `abx provider new` (scaffold) in generated/scaffold.c.
set(_suite ${CMAKE_SOURCE_DIR}/tests/conformance)
file(GLOB _cases CONFIGURE_DEPENDS ${_suite}/cases/*.json)
configure_file(cmake/conformance.h ${ABX_GENERATED}/conformance.h COPYONLY)
add_custom_command(OUTPUT ${ABX_GENERATED}/conformance.c
    COMMAND ${CMAKE_COMMAND} -DDIR=${_suite} -DOUT=${ABX_GENERATED}/conformance.c
        -P ${CMAKE_SOURCE_DIR}/cmake/conformance.cmake
    DEPENDS ${_suite}/suite.json ${_cases} cmake/conformance.cmake cmake/pack.cmake cmake/packed.c.in VERBATIM)
set(_scaffold ${CMAKE_SOURCE_DIR}/scaffold)
file(GLOB _scaffolds CONFIGURE_DEPENDS ${_scaffold}/*/*.* ${_scaffold}/*/Makefile)
configure_file(cmake/scaffold.h ${ABX_GENERATED}/scaffold.h COPYONLY)
add_custom_command(OUTPUT ${ABX_GENERATED}/scaffold.c
    COMMAND ${CMAKE_COMMAND} -DDIR=${_scaffold} -DOUT=${ABX_GENERATED}/scaffold.c
        -P ${CMAKE_SOURCE_DIR}/cmake/scaffold.cmake
    DEPENDS ${_scaffolds} cmake/scaffold.cmake cmake/pack.cmake cmake/packed.c.in VERBATIM)
add_library(abx_conformance STATIC ${ABX_GENERATED}/conformance.c ${ABX_GENERATED}/scaffold.c)
target_link_libraries(abx_conformance PRIVATE abx_flags abx_deps)
