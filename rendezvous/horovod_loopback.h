// Detects when a Horovod rank publishes an address that other hosts cannot reach.
//
// horovod 0.28.1 with Gloo listens at the interface of HOROVOD_GLOO_IFACE for its first three scopes. For process sets,
// of which every job has one, it listens at the address of the host's own name (GlooContext::InitializeForProcessSet).
// /etc/hosts may map that name to 127.0.1.1, as Debian's installer does. Then ranks of other hosts are refused, and
// Gloo's message does not say why.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

// `value` is a value by which a Horovod worker publishes its addresses: blocks of a raw sockaddr_storage and a number.
// True if the first address is a loopback address.
bool publishes_loopback(std::string_view value);

// Put it in front of a host's keys in a job of several hosts. `keys` must outlive it. `found` is called once, with the
// scope.
class HorovodLoopbackWatch final : public HorovodKeys {
 public:
  HorovodLoopbackWatch(HorovodKeys& keys, std::function<void(const std::string& scope)> found)
      : keys_(keys), found_(std::move(found)) {}

  void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override;
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override;
  void cancel_wait(WaitId id) override;
  void finish(std::string_view scope, std::string_view key, Done done) override;

 private:
  HorovodKeys& keys_;
  std::function<void(const std::string& scope)> found_;
};

}  // namespace muster::rendezvous
