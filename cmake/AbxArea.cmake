# abx_area(PATH USES...): everything below src/PATH as the static library abx_PATH (slashes become
# underscores), with the areas that it may use. An area without sources yet is an empty target.
# Programs that run during the build live in src/PATH/gen and are no part of the library.
function(abx_area path)
    string(REPLACE "/" "_" name ${path})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${path}/*.c src/${path}/*.cpp)
    list(FILTER sources EXCLUDE REGEX "/gen/|/doors/cli/main\\.c$")
    set(uses "")
    foreach(use IN LISTS ARGN)
        list(APPEND uses abx_${use})
    endforeach()
    if(sources)
        add_library(abx_${name} STATIC ${sources})
        target_link_libraries(abx_${name} PUBLIC abx_flags abx_deps ${uses})
        add_dependencies(abx_${name} abx_generated)
    else()
        add_library(abx_${name} INTERFACE)
        target_link_libraries(abx_${name} INTERFACE abx_flags abx_deps ${uses})
    endif()
endfunction()

# abx_small(PATHS...): these areas are walked through once a command, not in a loop: released for size, not for speed.
function(abx_small)
    foreach(path IN LISTS ARGN)
        string(REPLACE "/" "_" name ${path})
        target_compile_options(abx_${name} PRIVATE $<$<CONFIG:Release>:-Os>)
    endforeach()
endfunction()
