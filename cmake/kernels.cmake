# cmake -DDIR= -DOUT= -P: the kernels of src/local/kernels as byte arrays in one header.
set(text "/* made from src/local/kernels: cmake/kernels.cmake */\n")
foreach(pair python=python.py node=node.js bash=bash.sh)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 file)
    file(READ ${DIR}/${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
        "\\1\n" bytes "${bytes}")
    string(APPEND text "static const unsigned char abx__kernel_${name}[] = {\n${bytes}};\n")
endforeach()
file(WRITE ${OUT} "${text}")
