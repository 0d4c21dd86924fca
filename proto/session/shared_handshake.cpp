#include "proto/session/shared_handshake.hpp"

#include <fmt/format.h>

#include <cstring>

namespace taut {

pb::SharedMemory to_wire(const SharedLink::Offer& offer) {
  pb::SharedMemory wire;
  wire.set_process(offer.memory.process);
  wire.set_file(offer.memory.descriptor);
  wire.set_size(offer.memory.size);
  wire.set_probe(offer.memory.probe.data(), offer.memory.probe.size());
  wire.set_returns(offer.returns);
  return wire;
}

Result<SharedLink::Offer> from_wire(const pb::SharedMemory& wire) {
  SharedLink::Offer offer;
  if (wire.probe().size() != offer.memory.probe.size()) {
    return invalid(fmt::format("a probe of {} bytes; it has {}", wire.probe().size(),
                               offer.memory.probe.size()));
  }
  offer.memory.process = wire.process();
  offer.memory.descriptor = wire.file();
  offer.memory.size = wire.size();
  std::memcpy(offer.memory.probe.data(), wire.probe().data(), wire.probe().size());
  offer.returns = wire.returns();
  return offer;
}

}  // namespace taut
