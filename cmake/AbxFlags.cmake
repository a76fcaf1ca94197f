# Compiler and linker flags of everything that is ours. Warnings are errors.
include(CheckLinkerFlag)
add_library(abx_flags INTERFACE)

set(ABX_C_WARNINGS -Wall -Wextra -Werror -Wshadow -Wformat=2 -Wundef -Wvla -Wpointer-arith
    -Wcast-qual -Wwrite-strings -Wimplicit-fallthrough -Wno-unused-parameter
    -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wno-missing-field-initializers)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND ABX_C_WARNINGS -Wduplicated-cond)
else()
    list(APPEND ABX_C_WARNINGS -Wno-format-nonliteral)
endif()
set(ABX_CXX_WARNINGS -Wall -Wextra -Werror -Wshadow -Wno-unused-parameter)

target_compile_options(abx_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:${ABX_C_WARNINGS}>"
    "$<$<COMPILE_LANGUAGE:CXX>:${ABX_CXX_WARNINGS};-fno-exceptions;-fno-rtti>"
    -fstack-protector-strong -fno-semantic-interposition -fno-strict-aliasing
    -fno-plt -ffunction-sections -fdata-sections)
target_compile_definitions(abx_flags INTERFACE _GNU_SOURCE)
target_include_directories(abx_flags INTERFACE
    ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/generated)

if(ABX_SANITIZE)
    string(REPLACE "," ";" _list "${ABX_SANITIZE}")
    set(_flags -fsanitize=${ABX_SANITIZE} -fno-omit-frame-pointer)
    if("undefined" IN_LIST _list)
        list(APPEND _flags -fno-sanitize-recover=all)
    endif()
    target_compile_options(abx_flags INTERFACE ${_flags})
    target_link_options(abx_flags INTERFACE ${_flags})
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(abx_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

target_link_options(abx_flags INTERFACE -Wl,--gc-sections -Wl,--as-needed
    -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
check_linker_flag(C -Wl,-z,pack-relative-relocs ABX_HAS_PACK_RELATIVE_RELOCS)
if(ABX_HAS_PACK_RELATIVE_RELOCS)
    target_link_options(abx_flags INTERFACE -Wl,-z,pack-relative-relocs)
endif()
