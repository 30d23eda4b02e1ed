// Detects when a Horovod rank publishes an address that other hosts cannot reach.
//
// horovod 0.28.1 with Gloo listens at the interface of HOROVOD_GLOO_IFACE for its first three scopes. Every job also
// has process sets. For these Horovod listens at the address of the host's own name
// (GlooContext::InitializeForProcessSet). /etc/hosts may map that name to 127.0.1.1, as Debian's installer does. Then
// ranks of other hosts are refused, and Gloo's message does not say why.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

// Returns true if the first address in `value` is a loopback address. A Horovod worker publishes its addresses as
// blocks of a raw sockaddr_storage and a number; returns false for any other value.
bool publishes_loopback(std::string_view value);

// Wraps a host's keys in a job of several hosts. `keys` must outlive it. It calls `found` once, with the scope of the
// first loopback address.
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
