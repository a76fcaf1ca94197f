# cmake -DDIR= -DNAMES= -DOUT= -P: packs DIR/NAME.txt of all NAMES into a C file.
include(${CMAKE_CURRENT_LIST_DIR}/pack.cmake)
set(all ${OUT}.txt)
file(WRITE ${all} "")
foreach(name IN LISTS NAMES)
    file(READ ${DIR}/${name}.txt text)
    file(APPEND ${all} "==== ${name} ====\n\n${text}\n")
endforeach()
pack(licenses ${all} ${OUT})
