# Installs the public C++ client: its header, the headers that it names, and the libraries behind
# it, as the CMake package `tautline` with the target tautline::taut_client, next to
# tautline::tautline_c of worker/library; and for pkg-config as tautline-client and tautline.
include(CMakePackageConfigHelpers)

set(TAUT_CLIENT_LIBRARIES taut_client taut_proto taut_schemas taut_ssp taut_math
    taut_keys taut_common)
install(TARGETS ${TAUT_CLIENT_LIBRARIES} EXPORT tautline-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/tautline)
install(EXPORT tautline-targets NAMESPACE tautline::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tautline COMPONENT dev)
install(EXPORT tautline-c-targets NAMESPACE tautline::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tautline COMPONENT dev)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tautline-config-version.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
list(TRANSFORM TAUT_CLIENT_LIBRARIES PREPEND -l OUTPUT_VARIABLE TAUT_CLIENT_LIBS)
list(JOIN TAUT_CLIENT_LIBS " " TAUT_CLIENT_LIBS)
configure_file(scripts/cmake/tautline-client.pc.in tautline-client.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tautline-client.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(FILES scripts/cmake/tautline-config.cmake
              ${CMAKE_BINARY_DIR}/tautline-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tautline COMPONENT dev)
install(FILES worker/client/client.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tautline
        COMPONENT dev)
# What client.hpp, the endpoint handed to it and the keys for that include, no more.
foreach(header
    common/element_type.hpp common/files/block_tag.hpp common/files/tensor_file.hpp
    common/keys/key_folder.hpp
    common/math/codec.hpp common/math/filler.hpp common/math/host_device.hpp
    common/math/philox.hpp
    common/net/buffer_pool.hpp common/net/data_token.hpp common/net/endpoint.hpp
    common/net/memory_pinning.hpp common/net/message.hpp
    common/net/security.hpp common/net/shared_arena.hpp common/net/zmq/zmq_endpoint.hpp
    common/result.hpp common/ssp/compression.hpp common/ssp/table.hpp common/strong_type.hpp
    common/time.hpp common/types.hpp
    worker/client/client_load.hpp worker/client/resend_timer.hpp worker/client/send_policy.hpp
    worker/client/update_encoding.hpp)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tautline/${folder}
          COMPONENT dev)
endforeach()
