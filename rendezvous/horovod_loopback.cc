#include "rendezvous/horovod_loopback.h"

#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "base/net.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kBlock = sizeof(sockaddr_storage) + 8;

}  // namespace

bool publishes_loopback(std::string_view value) {
  if (value.size() < kBlock || value.size() % kBlock != 0) return false;
  sockaddr_storage storage{};
  std::memcpy(&storage, value.data(), sizeof storage);
  const auto address = base::IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage));
  return address.ok() && address->is_loopback();
}

void HorovodLoopbackWatch::put(std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  // Check only global scopes. Ranks of a local scope share a host, so they may use loopback.
  if (found_ != nullptr && scope.starts_with("global") && publishes_loopback(*value)) {
    std::exchange(found_, nullptr)(std::string(scope));
  }
  keys_.put(scope, key, std::move(value), std::move(done));
}

void HorovodLoopbackWatch::get(std::string_view scope, std::string_view key, GetDone done) {
  keys_.get(scope, key, std::move(done));
}

HorovodKeys::WaitId HorovodLoopbackWatch::wait(std::string_view scope, std::string_view key, GetDone done) {
  return keys_.wait(scope, key, std::move(done));
}

void HorovodLoopbackWatch::cancel_wait(WaitId id) {
  keys_.cancel_wait(id);
}

void HorovodLoopbackWatch::finish(std::string_view scope, std::string_view key, Done done) {
  keys_.finish(scope, key, std::move(done));
}

}  // namespace muster::rendezvous
