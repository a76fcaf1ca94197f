# pack(NAME FILE OUT): FILE, compressed, as a C file with the function abx_NAME_text, which gives its text back.
function(pack NAME file out)
    file(SIZE ${file} SIZE)
    execute_process(COMMAND gzip -9nc ${file} OUTPUT_FILE ${file}.gz RESULT_VARIABLE rc)
    if(NOT rc EQUAL 0)
        message(FATAL_ERROR "gzip failed on ${file}")
    endif()
    file(READ ${file}.gz hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," BYTES "${hex}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
        "\\1\n" BYTES "${BYTES}")
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/packed.c.in ${out} @ONLY)
    file(REMOVE ${file} ${file}.gz)
endfunction()
