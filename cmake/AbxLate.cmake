# abx_relocate_late(PROGRAM): OpenSSL's tables of this program are relocated when they are first needed, in released
# builds (src/base/openssl_tables.h). Where the linker does not pack relocations, the loader does it all. The tables for
# unwinding are no part of the loaded program either; they go to abx.debug (cmake/lazy/tables.ld).
if(ABX_STRIP AND ABX_HAS_PACK_RELATIVE_RELOCS)
    add_executable(abx_lazy_split cmake/lazy/split.c)
    target_compile_options(abx_lazy_split PRIVATE ${ABX_C_WARNINGS})
    target_compile_definitions(abx_lazy_split PRIVATE _GNU_SOURCE)
endif()
function(abx_relocate_late program)
    if(NOT TARGET abx_lazy_split)
        return()
    endif()
    set(_script ${CMAKE_SOURCE_DIR}/cmake/lazy/tables.ld)
    add_dependencies(${program} abx_lazy_split)
    target_link_options(${program} PRIVATE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:ABX_STATIC>>>:-pie> -Wl,-T,${_script} -Wl,--no-eh-frame-hdr)
    set_target_properties(${program} PROPERTIES LINK_DEPENDS ${_script})
    add_custom_command(TARGET ${program} POST_BUILD VERBATIM COMMAND abx_lazy_split $<TARGET_FILE:${program}>)
endfunction()
