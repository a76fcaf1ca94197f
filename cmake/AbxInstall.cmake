# cmake --install build/release [--prefix DIR]
if(TARGET abx)
    install(TARGETS abx RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # The program writes its own manual pages, from the table that also makes its help.
    install(CODE "
        file(MAKE_DIRECTORY \"${CMAKE_BINARY_DIR}/man\")
        execute_process(COMMAND \"${CMAKE_BINARY_DIR}/abx\" help --man \"${CMAKE_BINARY_DIR}/man\"
            RESULT_VARIABLE rc OUTPUT_QUIET)
        if(NOT rc EQUAL 0)
            message(FATAL_ERROR \"abx help --man failed\")
        endif()")
    install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
        FILES_MATCHING PATTERN "*.1")
endif()
if(TARGET libabx)
    install(TARGETS libabx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(DIRECTORY include/abx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    file(RELATIVE_PATH ABX_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" ABX_PC_PREFIX "${ABX_PC_PREFIX}")
    configure_file(cmake/abx.pc.in ${CMAKE_BINARY_DIR}/abx.pc @ONLY)
    configure_file(cmake/abx-uninstalled.pc.in ${CMAKE_BINARY_DIR}/abx-uninstalled.pc @ONLY) # what pkg-config prefers here
    install(FILES ${CMAKE_BINARY_DIR}/abx.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
foreach(_file README.md README.zh-CN.md CHANGELOG.md LICENSE docs)
    if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/${_file})
        install(DIRECTORY ${_file}/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
    elseif(EXISTS ${CMAKE_SOURCE_DIR}/${_file})
        install(FILES ${_file} DESTINATION ${CMAKE_INSTALL_DOCDIR})
    endif()
endforeach()
install(DIRECTORY ${ABX_LICENSE_DIR}/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses)
