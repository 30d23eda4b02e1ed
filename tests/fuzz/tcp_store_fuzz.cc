// TCPStore clients that send anything. An even first byte: however the bytes are split, the replies are the same. An
// odd one: several clients of one store, in pieces of the input's choice, leave nothing behind and stay within limits.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/tcp_store_session.h"

namespace {

using namespace muster::rendezvous;
namespace base = muster::base;

// Small, so that a short input reaches them.
constexpr TcpStoreLimits kLimits{
    .request = {.max_key_bytes = 64, .max_value_bytes = 256, .max_keys = 16, .max_request_bytes = 2048},
    .max_reply_bytes = 4096,
    .unread_bytes = 512,
    .max_waits = 4,
    .max_watches = 4,
    .max_total_bytes = 256 << 10};
constexpr StoreLimits kStoreLimits{
    .max_key_bytes = 64, .max_value_bytes = 512, .max_keys = 64, .max_total_bytes = 16 << 10};

TorchGeneration hint_of(std::uint8_t byte) {
  return (byte & 2) != 0 ? TorchGeneration::kB : TorchGeneration::kA;
}

std::string replies(std::string_view bytes, std::size_t piece, TorchGeneration hint) {
  MemoryStore store(kStoreLimits);
  TcpStoreHub hub(&store, hint, kLimits);
  TcpStoreSession session(&hub, "10.0.0.1", [] { std::abort(); });
  std::string all;
  const auto read_all = [&] {
    // After a failure too: the replies to what was in order before it are still sent.
    while (!session.output().empty()) {
      const std::string output(session.output());
      all += output;
      const base::Status status = session.consume_output(output.size());
      MUSTER_CHECK(status.ok() == session.failure().ok());
    }
  };
  while (!bytes.empty() && session.wants_input()) {
    const std::string_view next = bytes.substr(0, piece);
    const bool is_ok = session.receive(next).ok();
    bytes.remove_prefix(next.size());
    read_all();
    if (!is_ok) break;
  }
  MUSTER_CHECK(session.failure().ok() == session.wants_input());
  return all + (session.failure().ok() ? "" : "failed");
}

class Crowd {
 public:
  explicit Crowd(TorchGeneration hint) : hub_(&store_, hint, kLimits) {}
  ~Crowd() {
    for (auto& session : sessions_) session.reset();
    MUSTER_CHECK(hub_.total_bytes() == 0);
  }

  void act(std::uint8_t choice, std::string_view bytes) {
    auto& session = sessions_[choice % kSessions];
    if (session == nullptr) {
      session = std::make_unique<TcpStoreSession>(&hub_, choice % 2 == 0 ? "10.0.0.1" : "10.0.0.2", [] {});
    }
    const bool leaves = (choice & 0x80) != 0;
    const std::size_t read = std::min<std::size_t>(choice & 0x40 ? 7 : 1 << 20, session->output().size());
    bool is_ok = session->consume_output(read).ok();
    if (is_ok && session->wants_input()) is_ok = session->receive(bytes).ok();
    MUSTER_CHECK(is_ok || !session->wants_input());
    if (leaves || !session->failure().ok()) session.reset();
    MUSTER_CHECK(hub_.total_bytes() <= 2 * kLimits.max_total_bytes);
  }

 private:
  static constexpr std::size_t kSessions = 5;
  MemoryStore store_{kStoreLimits};
  TcpStoreHub hub_;
  std::unique_ptr<TcpStoreSession> sessions_[kSessions];
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const TorchGeneration hint = hint_of(data[0]);
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const std::string whole = replies(rest, rest.size(), hint);
    MUSTER_CHECK(replies(rest, 1, hint) == whole);
    MUSTER_CHECK(replies(rest, 13, hint) == whole);
    return 0;
  }
  Crowd crowd(hint);
  while (rest.size() >= 2) {
    const auto choice = static_cast<std::uint8_t>(rest[0]);
    const std::size_t piece = std::min<std::size_t>(static_cast<std::uint8_t>(rest[1]), rest.size() - 2);
    crowd.act(choice, rest.substr(2, piece));
    rest.remove_prefix(2 + piece);
  }
  return 0;
}
