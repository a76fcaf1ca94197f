# cmake -DDIR= -DOUT= -P: the kernels of src/local/kernels as byte arrays in one header. A kernel of several files is all of
# them, one after the other.
set(text "/* made from src/local/kernels: cmake/kernels.cmake */\n")
set(python python_channel.py python_results.py python_cell.py python_start.py)
set(node node.js)
set(bash bash.sh)
foreach(name python node bash)
    set(hex "")
    foreach(file IN LISTS ${name})
        file(READ ${DIR}/${file} part HEX)
        string(APPEND hex "${part}")
    endforeach()
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
        "\\1\n" bytes "${bytes}")
    string(APPEND text "static const unsigned char abx__kernel_${name}[] = {\n${bytes}};\n")
endforeach()
file(WRITE ${OUT} "${text}")
