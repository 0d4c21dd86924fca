# Installs the public C++ client: its header, the headers that it names, and the libraries behind it,
# as the CMake package `tautline` with the target tautline::taut_client.
include(CMakePackageConfigHelpers)

set(TAUT_CLIENT_LIBRARIES taut_client taut_proto taut_schemas taut_ssp taut_math taut_common)
install(TARGETS ${TAUT_CLIENT_LIBRARIES} EXPORT tautline-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/tautline)
install(EXPORT tautline-targets NAMESPACE tautline::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tautline)
install(FILES scripts/cmake/tautline-config.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tautline)
install(FILES worker/client/client.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tautline)
install(FILES worker/client/client_load.hpp worker/client/resend_timer.hpp
              worker/client/send_policy.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tautline/worker/client)
foreach(room common common/math common/net common/ssp)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*.hpp)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tautline/${room})
endforeach()
