// Bytes of anybody at the Horovod HTTP server: what is read from them does not depend on how they were cut up, what is
// served stays within the limits, and every reply is one of the few that the server knows. The first byte says where
// to cut.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "rendezvous/horovod_request.h"
#include "rendezvous/horovod_store.h"

namespace {

using namespace muster;
using namespace muster::rendezvous;

constexpr HorovodRequestLimits kLimits{.max_head_bytes = 256, .max_body_bytes = 64};
constexpr StoreLimits kStore{.max_key_bytes = 32, .max_value_bytes = 48, .max_keys = 4, .max_total_bytes = 128};

std::string serve(HorovodKeys& keys, HorovodRequest request) {
  if (request.body.size() > kLimits.max_body_bytes) std::abort();
  if (request.scope.find('/') != std::string::npos || request.key.find('/') != std::string::npos) std::abort();
  std::string reply;
  const auto done = [&](const base::Status& status) { reply = horovod_reply_head(status.ok() ? 200 : 507, 0); };
  switch (request.verb) {
    case HorovodRequest::Verb::kGet:
      keys.get(request.scope, request.key, [&](const base::Result<HorovodValue>& value) {
        if (*value != nullptr && (*value)->size() > kStore.max_value_bytes) std::abort();
        reply = *value == nullptr ? horovod_reply_head(404, 0) : horovod_reply_head(200, (*value)->size()) + **value;
      });
      break;
    case HorovodRequest::Verb::kPut:
      keys.put(request.scope, request.key, make_horovod_value(std::move(request.body)), done);
      break;
    case HorovodRequest::Verb::kDelete:
      keys.finish(request.scope, request.key, done);
      break;
  }
  return reply;
}

// All replies to `bytes`, given in pieces of `step`.
std::string converse(std::string_view bytes, std::size_t step) {
  HorovodStore store({{{"global", 2}}}, kStore);
  HorovodStoreKeys keys(store);
  HorovodRequestReader reader(kLimits);
  std::string replies;
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    while (!piece.empty()) {
      const auto state = reader.feed(&piece);
      if (reader.body_size() > kLimits.max_body_bytes) std::abort();
      if (state == HorovodRequestReader::State::kRefused) return replies + horovod_reply_head(reader.refusal(), 0);
      if (state == HorovodRequestReader::State::kComplete) replies += serve(keys, reader.take());
    }
    if (store.size() > kStore.max_keys || store.total_bytes() > kStore.max_total_bytes) std::abort();
  }
  return replies;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t step = data[0] % 64 + 1;
  if (converse(bytes, bytes.size() + 1) != converse(bytes, step)) std::abort();
  return 0;
}
