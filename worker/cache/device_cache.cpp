#include "worker/cache/device_cache.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/check.hpp"
#include "common/log.hpp"

namespace taut {
namespace {

/// What a rehearsal's values are of.
constexpr Clock kRehearsal{-1};

}  // namespace

DeviceCache::DeviceCache(Client& client, Backend& backend, const ServedCache::Options& options)
    : client_(client),
      backend_(backend),
      options_(options),
      own_stream_(backend.make_stream()),
      compute_(own_stream_.get()),
      values_(backend),
      to_host_(backend.make_copy_stream()) {}

DeviceCache::~DeviceCache() {
  client_.on_read({});
  // Copies first: what the sender and the client hold is what they write into. A device that failed
  // says so again here, after whoever ends because of it has said it.
  const auto finish = [](auto& copies) {
    try {
      copies.finish();
    } catch (const std::exception& fault) {
      log::debug("the copies were cut short: {}", fault.what());
    }
  };
  finish(*to_host_);
  finish(values_);
  sender_.reset();
  client_.close();
}

Result<std::unique_ptr<DeviceCache>> DeviceCache::open(Client& client, Backend& backend,
                                                       std::vector<TableSpec> tables,
                                                       const ServedCache::Options& options) {
  TAUT_TRY(client.open(tables, options.wait));
  std::unique_ptr<DeviceCache> cache(new DeviceCache(client, backend, options));
  for (TableSpec& spec : tables) cache->add_table(std::move(spec));
  GradientSender::Options sending;
  sending.norm = options.norm;
  sending.at_once = options.overlap && options.norm != math::UpdateNorm::kGradient;
  sending.limit = std::max<std::size_t>(2 * cache->tables_.size() + 2, 16);
  cache->sender_ = std::make_unique<GradientSender>(client, sending);
  if (options.overlap) {
    client.on_read([&cache = *cache](TableId table, Clock) { cache.copy_ahead(table); });
  }
  for (Table& table : cache->tables_) {
    client.read(table.spec.id, wanted(table, options.start), cache->values_.fresh(table.spec.id));
  }
  for (Table& table : cache->tables_) {
    if (table.spec.kind != TableKind::kFrozen) continue;
    TAUT_TRY(cache->bring(table, Clock(0)));
  }
  return cache;
}

void DeviceCache::add_table(TableSpec spec) {
  Table table;
  values_.add(spec);
  if (spec.kind != TableKind::kFrozen) {
    table.made = backend_.make_event();
    table.squares = backend_.allocate_host(Bytes(2 * sizeof(double)));
    table.gradient = backend_.allocate_floats(spec.count(), "gradient of parameter " + spec.name);
  }
  table.spec = std::move(spec);
  tables_.push_back(std::move(table));
}

/// What was brought before goes on meaning what is in front: frozen values are brought once.
void DeviceCache::compute_on(std::size_t /*replica*/, Stream& stream) {
  compute_ = &stream;
  for (const Table& table : tables_) {
    if (table.held) values_.await_front(table.spec.id, stream);
  }
}

Result<DeviceSpan<const float>> DeviceCache::acquire(std::size_t /*replica*/, TableId id,
                                                     Clock clock) {
  if (!options_.overlap) {
    for (Table& table : tables_) {
      TAUT_TRY(bring(table, clock));
    }
  }
  TAUT_TRY(bring(tables_[id.value()], clock));
  return values_.front(id);
}

/// A frozen table is never pushed, so it stays at clock 0 for ever.
Clock DeviceCache::wanted(const Table& table, Clock clock) {
  return table.spec.kind == TableKind::kFrozen ? Clock(0) : clock;
}

/// All tables are waited for at once: only together do they say how far the others have come.
Result<Clock> DeviceCache::begin_clock(Clock clock) {
  if (!options_.catches_up) return clock;
  Clock reached = Clock::never();
  for (Table& table : tables_) {
    TAUT_TRY(await(table, clock));
    if (table.spec.kind != TableKind::kFrozen) reached = std::min(reached, table.version);
  }
  if (reached == Clock::never() || reached <= clock) return clock;
  for (Table& table : tables_) {
    if (table.spec.kind != TableKind::kFrozen) table.come = reached;
  }
  return reached;
}

/// Waits until the client has a table's values at a clock.
Result<void> DeviceCache::await(Table& table, Clock clock) {
  TAUT_TRY(check_sender());
  if (table.come == wanted(table, clock)) return ok();
  const auto read = client_.wait(table.spec.id, wanted(table, clock), options_.wait);
  TAUT_TRY(check_sender());
  if (!read) return read.error();
  table.come = wanted(table, clock);
  table.version = read.value().version;
  return ok();
}

/// Errors    unavailable: a gradient's copy failed, and so its values never come
Result<void> DeviceCache::check_sender() const {
  const std::string failure = sender_->failure();
  if (failure.empty()) return ok();
  return make_error(ErrorCode::kUnavailable, failure);
}

/// The client has a table's values, and the thread that works for it says so. What the device has
/// against a copy it says again where the compute asks for the values.
void DeviceCache::copy_ahead(TableId table) noexcept {
  try {
    values_.copy_ahead(table);
  } catch (const std::exception& fault) {
    log::debug("values were not copied ahead: {}", fault.what());
  }
}

/// Waits for the values, and puts them in front of the compute.
Result<void> DeviceCache::bring(Table& table, Clock clock) {
  const bool rehearsal = backend_.is_rehearsing();
  const Clock asked = wanted(table, rehearsal ? kRehearsal : clock);
  if (table.held == asked) return ok();
  if (!rehearsal) {
    TAUT_TRY(await(table, clock));
    // Whatever else needs the device's memory has it when the first clock is over.
    if (table.held && options_.overlap) values_.try_second_buffers();
  }
  values_.bring(table.spec.id, *compute_);
  table.held = asked;
  return ok();
}

DeviceSpan<float> DeviceCache::gradient(std::size_t replica, TableId id) {
  TAUT_CHECK(replica == 0, "a served cache has one replica");
  Table& table = tables_[id.value()];
  if (table.landed) table.landed->wait(*compute_);
  return table.gradient.as<float>();
}

void DeviceCache::publish(std::size_t /*replica*/, TableId id, Clock clock) {
  if (options_.overlap) {
    fetch_gradient(id, clock);
  } else {
    published_.push_back(id);
  }
}

/// What the norm wants to know of a table, which the sender has read before the next clock's is made.
void DeviceCache::measure(TableId id) {
  const Table& table = tables_[id.value()];
  if (options_.norm == math::UpdateNorm::kNone || table.spec.kind != TableKind::kTrained) return;
  const std::span<double> squares = table.squares.as<double>();
  backend_.copy_squares_to_host(*compute_, table.gradient.as<float>(), squares[0]);
  if (options_.norm == math::UpdateNorm::kRelative) {
    backend_.copy_squares_to_host(*compute_, values_.front(id), squares[1]);
  }
}

/// Starts the copy of a gradient to the host, and hands it over.
void DeviceCache::fetch_gradient(TableId id, Clock clock) {
  Table& table = tables_[id.value()];
  measure(id);
  values_.mark_used(id, *compute_);
  table.made->record(*compute_);
  table.made->wait(*to_host_);
  const DeviceSpan<const float> made = table.gradient.as<float>();
  if (backend_.is_rehearsing()) {
    // Some host memory of that size: nothing is copied.
    backend_.copy_to_host(*to_host_, made, values_.fresh(id));
    return;
  }
  // The client keeps the buffer until the shards have it; the next gradient gets another one.
  const Buffer gradient = client_.gradient_buffer(id);
  backend_.copy_to_host(*to_host_, made, gradient.floats());
  table.landed = backend_.make_event();
  table.landed->record(*to_host_);
  sender_->hand_over({id, clock, table.spec.kind == TableKind::kTrained, gradient, table.landed,
                      values_.fresh(id), table.squares.as<double>().first<2>()});
}

void DeviceCache::finish_clock(std::size_t /*replica*/, Clock clock) {
  for (const TableId id : std::exchange(published_, {})) fetch_gradient(id, clock);
  if (!backend_.is_rehearsing()) sender_->finish_clock();
}

Result<Clock> DeviceCache::snapshot(TableId table, std::span<float> into) {
  TAUT_TRY(const ReadResult read, client_.snapshot(table, into, options_.wait));
  return read.version;
}

Result<void> DeviceCache::flush(Duration wait) {
  if (!sender_->drain(wait)) {
    return make_error(ErrorCode::kTimeout, "the copies of gradients from the device took too long");
  }
  // A gradient whose copy failed was taken too, and never sent.
  TAUT_TRY(check_sender());
  return client_.flush(wait);
}

}  // namespace taut
