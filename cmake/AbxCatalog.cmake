# abx_catalog_source(FOLDER OUT.c): the plugins in FOLDER packed into a C file by src/host/gen/catalog_gen.c. The library
# abx_catalog holds those of providers/.
file(GLOB _catalog_parts CONFIGURE_DEPENDS src/host/manifest*.c src/host/toml*.c src/host/toml*.cpp)
add_executable(abx_catalog_gen src/host/gen/catalog_gen.c ${_catalog_parts} src/host/problems.c src/host/plugin.c
    src/host/store_tree.c src/host/store_copy.c)
target_link_libraries(abx_catalog_gen PRIVATE abx_ops)
set_target_properties(abx_catalog_gen PROPERTIES LINKER_LANGUAGE CXX)

function(abx_catalog_source folder out)
    file(GLOB_RECURSE parts CONFIGURE_DEPENDS ${folder}/*)
    add_custom_command(OUTPUT ${out} COMMAND abx_catalog_gen ${folder} ${out} DEPENDS abx_catalog_gen ${parts} VERBATIM)
endfunction()

abx_catalog_source(${CMAKE_SOURCE_DIR}/providers ${ABX_GENERATED}/catalog.c)
add_library(abx_catalog STATIC ${ABX_GENERATED}/catalog.c)
target_link_libraries(abx_catalog PRIVATE abx_flags abx_deps)
target_link_libraries(abx_host PUBLIC abx_catalog)
