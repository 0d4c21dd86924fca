#include "worker/engine/plan/wrapped_backend.hpp"

#include <utility>
#include <variant>
#include <vector>

#include "common/check.hpp"
#include "worker/engine/plan/wrapped_call.hpp"
#include "worker/engine/plan/wrapped_op.hpp"

namespace taut {

using wrapped::make_call;
using wrapped::WrittenInPart;
using Read = DeviceSpan<const float>;
using Written = DeviceSpan<float>;

void WrappedBackend::copy_to_device(Stream& stream, std::span<const float> from, Written to) {
  const auto run = [this, from](Stream& on, Written at) { inner_.copy_to_device(on, from, at); };
  DeviceCall call = make_call("copy to the device", run, to);
  call.host_source = std::as_bytes(from);
  on_call(stream, std::move(call));
}

void WrappedBackend::copy_to_host(Stream& stream, Read from, std::span<float> to) {
  const auto run = [this, to](Stream& on, Read at) { inner_.copy_to_host(on, at, to); };
  DeviceCall call = make_call("copy to the host", run, from);
  call.kind = CallKind::kCopyToHost;
  call.host_target = std::as_writable_bytes(to);
  on_call(stream, std::move(call));
}

void WrappedBackend::copy(Stream& stream, Read from, Written to) {
  const auto run = [this](Stream& on, Read source, Written at) { inner_.copy(on, source, at); };
  on_call(stream, make_call("copy", run, from, to));
}

void WrappedBackend::fill(Stream& stream, Written to, float value) {
  const auto run = [this, value](Stream& on, Written at) { inner_.fill(on, at, value); };
  on_call(stream, make_call("fill", run, to));
}

void WrappedBackend::add(Stream& stream, Read from, Written into) {
  const auto run = [this](Stream& on, Read source, Written at) { inner_.add(on, source, at); };
  on_call(stream, make_call("sum", run, from, Updated{into}));
}

void WrappedBackend::weighted_sum(Stream& stream, std::span<const Term> terms, Written out) {
  const auto run = [this](Stream& on, const std::vector<Term>& at, Written to) {
    inner_.weighted_sum(on, at, to);
  };
  on_call(stream,
          make_call("weighted sum", run, std::vector<Term>(terms.begin(), terms.end()), out));
}

void WrappedBackend::apply_update(Stream& stream, const DeviceUpdate& update,
                                  std::span<const DeviceGradient> gradients, Written values,
                                  std::span<const DeviceSpan<float>> state) {
  wrapped::UpdatedList arrays;
  for (const Written& array : state) arrays.emplace_back(array);
  const auto run = [this, update](Stream& on, const std::vector<DeviceGradient>& from, Written at,
                                  const std::vector<Written>& beside) {
    inner_.apply_update(on, update, from, at, beside);
  };
  on_call(stream,
          make_call("update", run, std::vector<DeviceGradient>(gradients.begin(), gradients.end()),
                    Updated{values}, std::move(arrays)));
}

void WrappedBackend::apply_average(Stream& stream, std::span<const DeviceGradient> contributions,
                                   float share, Written values) {
  const auto run = [this, share](Stream& on, const std::vector<DeviceGradient>& from, Written at) {
    inner_.apply_average(on, from, share, at);
  };
  on_call(stream, make_call("average", run,
                            std::vector<DeviceGradient>(contributions.begin(), contributions.end()),
                            Updated{values}));
}

void WrappedBackend::encode(Stream& stream, const SliceEncoding& how, Read values, Written out,
                            Written state) {
  const auto run = [this, how](Stream& on, Read from, Written to, Written kept) {
    inner_.encode(on, how, from, to, kept);
  };
  on_call(stream, make_call("encoding", run, values, WrittenInPart{out}, Updated{state}));
}

void WrappedBackend::advance_velocity(Stream& stream, float momentum, float scale, Written gradient,
                                      Written velocity) {
  const auto run = [this, momentum, scale](Stream& on, Written at, Written kept) {
    inner_.advance_velocity(on, momentum, scale, at, kept);
  };
  on_call(stream, make_call("velocity", run, Updated{gradient}, Updated{velocity}));
}

void WrappedBackend::clear_sent_velocities(Stream& stream, Read residual, Written velocity) {
  const auto run = [this](Stream& on, Read from, Written at) {
    inner_.clear_sent_velocities(on, from, at);
  };
  on_call(stream, make_call("sent velocities", run, residual, Updated{velocity}));
}

/// One call for each part, so that not all of them need to be on the device at once.
double WrappedBackend::sum_of_squares(Stream& stream, std::span<const Read> of) {
  double sum = 0;
  for (const Read& part : of) {
    double own = 0;
    const auto run = [this, &own](Stream& on, Read at) {
      own = inner_.sum_of_squares(on, std::span(&at, 1));
    };
    on_call(stream, make_call("sum of squares", run, part));
    stream.finish();
    sum += own;
  }
  return sum;
}

void WrappedBackend::copy_squares_to_host(Stream& stream, Read of, double& into) {
  const auto run = [this, &into](Stream& on, Read at) {
    inner_.copy_squares_to_host(on, at, into);
  };
  DeviceCall call = make_call("sum of squares to the host", run, of);
  call.kind = CallKind::kCopyToHost;
  on_call(stream, std::move(call));
}

void WrappedBackend::copy_part(Stream& stream, const PartCopy& part, Read from, Written to) {
  const auto run = [this, part](Stream& on, Read source, Written at) {
    inner_.copy_part(on, part, source, at);
  };
  if (part.to[part.axis] == part.length) {
    on_call(stream, make_call("copy of a part", run, from, to));
  } else {
    on_call(stream, make_call("copy into a part", run, from, WrittenInPart{to}));
  }
}

void WrappedBackend::reshape(Stream& stream, const Extents& from_shape, const Extents& to_shape,
                             Read from, Written to) {
  const auto run = [this, from_shape, to_shape](Stream& on, Read source, Written at) {
    inner_.reshape(on, from_shape, to_shape, source, at);
  };
  on_call(stream, make_call("reshape", run, from, to));
}

void WrappedBackend::write_tensor(Stream& stream, const Extents& shape, std::span<const float> from,
                                  Written to) {
  const auto run = [this, shape, from](Stream& on, Written at) {
    inner_.write_tensor(on, shape, from, at);
  };
  on_call(stream, make_call("batch", run, to));
}

void WrappedBackend::read_tensor(Stream& stream, const Extents& shape, Read from,
                                 std::span<float> to) {
  const auto run = [this, shape, to](Stream& on, Read at) {
    inner_.read_tensor(on, shape, at, to);
  };
  DeviceCall call = make_call("tensor to the host", run, from);
  call.kind = CallKind::kCopyToHost;
  on_call(stream, std::move(call));
}

std::unique_ptr<DeviceOp> WrappedBackend::make_op(OpSpec spec) {
  return std::visit(
      [this](const auto* one) -> std::unique_ptr<DeviceOp> {
        return wrapped::wrap(*this, *one, inner_.make(*one));
      },
      spec);
}

#define TAUT_WRAP_FUSED(Spec)                                                  \
  std::unique_ptr<Spec::Op> WrappedBackend::make_fused(const Spec& spec) {     \
    TAUT_CHECK(fuses(), "a backend that has no operations of several layers"); \
    return wrapped::wrap(*this, spec, fusing(inner_)->make_fused(spec));       \
  }
TAUT_EACH_FUSED_SPEC(TAUT_WRAP_FUSED)
#undef TAUT_WRAP_FUSED

}  // namespace taut
