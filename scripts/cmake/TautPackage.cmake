# Packages for Debian and Ubuntu: `cpack` in the build folder, or scripts/package, which builds
# first. What is of packages alone is excluded from a plain `cmake --install`.

# tautline: programs, library, configurations, services.
install(FILES configs/system/server.textproto configs/system/worker.textproto
        DESTINATION /etc/tautline COMPONENT tautline EXCLUDE_FROM_ALL)
install(FILES configs/systemd/tautline-server.service configs/systemd/tautline-worker@.service
        DESTINATION lib/systemd/system COMPONENT tautline EXCLUDE_FROM_ALL)
# A folder of the shipped allowed_folders, which must exist. Packages of data sets share it.
install(DIRECTORY DESTINATION share/datasets COMPONENT tautline EXCLUDE_FROM_ALL)
install(FILES scripts/packages/copyright docs/CHANGELOG.md docs/SECURITY.md
        DESTINATION share/doc/tautline COMPONENT tautline EXCLUDE_FROM_ALL)
install(DIRECTORY docs/guide DESTINATION share/doc/tautline COMPONENT tautline EXCLUDE_FROM_ALL)
install(FILES third_party/uplot/LICENSE DESTINATION share/doc/tautline RENAME uplot-LICENSE
        COMPONENT tautline EXCLUDE_FROM_ALL)
foreach(package tautline-cuda libtautline-dev)
  string(REGEX REPLACE ".*-" "" component ${package})
  install(FILES scripts/packages/copyright DESTINATION share/doc/${package}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

# Man pages and completions, which the programs write.
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
  foreach(program tautline tautline-server tautline-worker)
    foreach(page \"man|man/man1/\${program}.1\"
                 \"bash|bash-completion/completions/\${program}\"
                 \"zsh|zsh/vendor-completions/_\${program}\")
      string(REPLACE \"|\" \";\" page \"\${page}\")
      list(GET page 0 kind)
      list(GET page 1 place)
      get_filename_component(folder \"\${root}/\${place}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"${CMAKE_BINARY_DIR}/bin/\${program}\" --generate \${kind}
                      OUTPUT_FILE \"\${root}/\${place}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    execute_process(COMMAND gzip -9nf \"\${root}/man/man1/\${program}.1\"
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
" COMPONENT tautline EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The authors of Tautline <tautline@example.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# Files in /etc need it, and then this is the prefix of the others.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL tautline dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_COMPONENT_TAUTLINE_DESCRIPTION "Parameter server for training neural networks
 A server and a worker daemon, their command line, services of systemd, and the library with which
 programs take part in a training.")
set(CPACK_DEBIAN_TAUTLINE_PACKAGE_NAME tautline)
set(CPACK_DEBIAN_TAUTLINE_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TAUTLINE_PACKAGE_DEPENDS passwd)
set(CPACK_DEBIAN_TAUTLINE_PACKAGE_SUGGESTS "tautline-cuda, dataset-fashion-mnist, libucx0")
set(packages ${CMAKE_SOURCE_DIR}/scripts/packages)
set(CPACK_DEBIAN_TAUTLINE_PACKAGE_CONTROL_EXTRA
    ${packages}/postinst ${packages}/prerm ${packages}/postrm ${packages}/conffiles
    ${packages}/triggers)

set(CPACK_COMPONENT_DEV_DESCRIPTION "Parameter server for training neural networks: development
 Headers and libraries for programs that are members or clients of a Tautline cluster.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtautline-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "tautline (= ${PROJECT_VERSION}), libzmq3-dev, cppzmq-dev, libprotobuf-dev, protobuf-compiler, \
libspdlog-dev, libfmt-dev, nlohmann-json3-dev, zlib1g-dev, libssl-dev, \
libboost1.81-dev | libboost-dev (>= 1.81)")

if(TARGET tautline_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "Parameter server for training neural networks: CUDA
 The backend that lets workers of Tautline compute on NVIDIA GPUs.")
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME tautline-cuda)
  # CUDA's libraries are those of NVIDIA's packages or of its installer, which dpkg may not know:
  # the packages are recommended. All else that the module needs is what tautline depends on.
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "tautline (= ${PROJECT_VERSION})")
  set(cuda ${CUDAToolkit_VERSION_MAJOR})
  set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS
      "libcudnn9-cuda-${cuda}, libcublas-${cuda}-${CUDAToolkit_VERSION_MINOR} | \
cuda-toolkit-${cuda}")
  set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS libnccl2)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION contrib/science)
endif()

include(CPack)
