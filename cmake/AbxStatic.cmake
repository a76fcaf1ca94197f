# abx_static(PROGRAM): glibc is part of the program, except in builds with a sanitizer. It starts sooner, and runs where the machine
# has another C library, an older one or none.
#
# Where glibc is the version that cmake/lazy/start.c knows, that start is linked: it asks the processor nothing.
include(CheckCSourceCompiles)
check_linker_flag(C -Wl,--no-warnings ABX_HAS_NO_WARNINGS)
check_c_source_compiles("
    #include <features.h>
    #if !defined __x86_64__ || __GLIBC__ != 2 || __GLIBC_MINOR__ != 36
    #error another
    #endif
    int main(void) { return 0; }" ABX_HAS_KNOWN_START)
define_property(TARGET PROPERTY ABX_STATIC BRIEF_DOCS "glibc is linked in" FULL_DOCS "set by abx_static")
if(NOT ABX_SANITIZE AND ABX_HAS_KNOWN_START)
    add_library(abx_start OBJECT cmake/lazy/start.c)
    target_compile_definitions(abx_start PRIVATE _GNU_SOURCE)
    # before glibc is ready nothing may use it
    target_compile_options(abx_start PRIVATE ${ABX_C_WARNINGS} -Wno-array-bounds -fno-stack-protector -fno-tree-loop-distribute-patterns)
endif()

function(abx_static program)
    if(ABX_SANITIZE)
        target_link_options(${program} PRIVATE -static-libgcc -static-libstdc++ -pie)
        return()
    endif()
    set_target_properties(${program} PROPERTIES ABX_STATIC ON)
    target_link_options(${program} PRIVATE -static-pie)
    if(ABX_HAS_NO_WARNINGS) # that modules for looking names up come from elsewhere: none are used (cmake/lazy/names.c)
        target_link_options(${program} PRIVATE -Wl,--no-warnings)
    endif()
    if(TARGET abx_start)
        target_sources(${program} PRIVATE $<TARGET_OBJECTS:abx_start>)
    endif()
endfunction()
