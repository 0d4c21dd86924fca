#include "worker/device/batch_memory.hpp"

#include <utility>

#include "common/check.hpp"

namespace taut::worker {

void* BatchMemory::do_allocate(std::size_t bytes, std::size_t /*alignment*/) {
  HostBuffer block = backend_.allocate_host(Bytes(bytes));
  void* const address = block.as<std::byte>().data();
  std::scoped_lock lock(mutex_);
  blocks_.emplace(address, std::move(block));
  return address;
}

void BatchMemory::do_deallocate(void* address, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  HostBuffer block;  // released after the lock
  std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(address);
  TAUT_CHECK(found != blocks_.end(), "a batch's memory is given back once");
  block = std::move(found->second);
  blocks_.erase(found);
}

}  // namespace taut::worker
