# Finds every outside library once. All of them come from the distribution; scripts/install_packages
# names the Debian and Ubuntu packages.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# oneDNN's own package file requires an OpenCL that the CPU library does not use.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(taut_dnnl INTERFACE)
target_include_directories(taut_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(taut_dnnl INTERFACE ${DNNL_LIBRARY})
# GLPK has neither a package file nor one of pkg-config.
find_path(GLPK_INCLUDE_DIR glpk.h REQUIRED)
find_library(GLPK_LIBRARY glpk REQUIRED)
add_library(taut_glpk INTERFACE)
target_include_directories(taut_glpk SYSTEM INTERFACE ${GLPK_INCLUDE_DIR})
target_link_libraries(taut_glpk INTERFACE ${GLPK_LIBRARY})
find_package(Boost 1.81 REQUIRED)
find_library(TAUT_BOOST_CONTEXT boost_context REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
# Asked for again at each configuration: of what is cached, CMake 3.25 passes -isystem in another
# place, so that a change of a CMakeLists.txt would compile every source again.
unset(__pkg_config_checked_ZMQ CACHE)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
# The serial flavour. It brings dozens of further libraries, so programs that do not call it are not
# bound to it.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial hdf5)
add_library(taut_hdf5_library INTERFACE)
target_link_libraries(taut_hdf5_library INTERFACE
                      -Wl,--push-state,--as-needed PkgConfig::HDF5 -Wl,--pop-state)
if(TAUTLINE_TESTS)
  find_package(Catch2 REQUIRED)
endif()

# The device twin (tests/twin) takes the toolkit's and cuDNN's headers, and nothing that is linked.
set(TAUT_TWIN_FOUND OFF)
if(TAUTLINE_TESTS AND NOT TAUTLINE_SANITIZE MATCHES thread)
  find_package(CUDAToolkit 12.4 QUIET)
  find_path(TAUT_TWIN_CUDA_HEADERS cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
            /usr/local/cuda/include)
  find_path(TAUT_TWIN_CUDNN_HEADERS cudnn.h HINTS ${CUDNN_INCLUDE_DIR} ${TAUT_TWIN_CUDA_HEADERS})
  if(TAUT_TWIN_CUDA_HEADERS AND TAUT_TWIN_CUDNN_HEADERS)
    set(TAUT_TWIN_FOUND ON)
  else()
    message(STATUS "Device twin: not built, headers of CUDA >= 12.4 or cuDNN 9 are missing")
  endif()
endif()

# CUDA: the toolkit and cuDNN 9, from the CUDA root or from the folders of Python wheels
# (CMAKE_PREFIX_PATH names those).
set(TAUTLINE_CUDA_FOUND OFF)
set(TAUT_CUDA_MISSING "")
if(NOT TAUTLINE_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 12.4 QUIET)
  if(TAUTLINE_SANITIZE)
    set(TAUT_CUDA_MISSING "no sanitizer that looks into it")
  elseif(NOT CUDAToolkit_FOUND)
    set(TAUT_CUDA_MISSING "no CUDA toolkit >= 12.4; set CUDAToolkit_ROOT")
  else()
    find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
    if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
      set(TAUT_CUDA_MISSING "no cuDNN 9; set CUDNN_INCLUDE_DIR and CUDNN_LIBRARY")
    elseif(NOT TARGET CUDA::cublasLt)
      set(TAUT_CUDA_MISSING "no cuBLASLt in the CUDA toolkit")
    endif()
  endif()
  if(NOT TAUT_CUDA_MISSING)
    set(TAUTLINE_CUDA_FOUND ON)
  elseif(TAUTLINE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TAUTLINE_CUDA=ON, but there is ${TAUT_CUDA_MISSING}; or set "
                        "TAUTLINE_CUDA=OFF to build for the CPU alone")
  endif()
endif()
if(TAUTLINE_CUDA_FOUND)
  # Ampere and Hopper, and what comes later through Hopper's intermediate code.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "Devices that kernels are compiled for")
  endif()
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "")
  enable_language(CUDA)
  add_library(taut_cuda_libraries INTERFACE)
  target_include_directories(taut_cuda_libraries SYSTEM INTERFACE ${CUDNN_INCLUDE_DIR}
                                                                  ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(taut_cuda_libraries INTERFACE ${CUDNN_LIBRARY} CUDA::cublasLt
                                                      CUDA::cudart_static)
  message(STATUS "CUDA backend: toolkit ${CUDAToolkit_VERSION}, ${CUDNN_LIBRARY}")
elseif(NOT TAUTLINE_CUDA STREQUAL "OFF")
  message(STATUS "CUDA backend: not built, ${TAUT_CUDA_MISSING}")
endif()
