# The tests of kernels by themselves: of the device twin's and of a device's.
set(KERNEL_TESTS ${CMAKE_SOURCE_DIR}/tests/gpu/kernels)
set(KERNEL_TEST_SOURCES ${KERNEL_TESTS}/batch_norm_test.cpp ${KERNEL_TESTS}/elementwise_test.cpp
    ${KERNEL_TESTS}/encode_test.cpp ${KERNEL_TESTS}/half_test.cpp
    ${KERNEL_TESTS}/loss_test.cpp ${KERNEL_TESTS}/normalize_test.cpp
    ${KERNEL_TESTS}/pooling_test.cpp ${KERNEL_TESTS}/reduce_test.cpp ${KERNEL_TESTS}/rules_test.cpp
    ${KERNEL_TESTS}/sequence_test.cpp ${KERNEL_TESTS}/update_rules_test.cpp
    ${KERNEL_TESTS}/update_test.cpp)
