# cmake -DSOURCE= -DOUT= -DVERSION= -DPLATFORM= -P: writes abx_build.h, only if it would change.
set(commit unknown)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD
        OUTPUT_VARIABLE commit_out RESULT_VARIABLE rc ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(rc EQUAL 0)
        set(commit ${commit_out})
    endif()
endif()
set(text "/* Made by the build. */
#ifndef ABX_BUILD_H
#define ABX_BUILD_H
#define ABX_VERSION \"${VERSION}\"
#define ABX_COMMIT \"${commit}\"
#define ABX_PLATFORM \"${PLATFORM}\"
#endif
")
set(old "")
if(EXISTS ${OUT})
    file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
    file(WRITE ${OUT} "${text}")
endif()
