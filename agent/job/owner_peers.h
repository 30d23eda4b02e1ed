// Agents of one job ask each other whose a connection to a store is: one datagram there and one back. So a store serves
// ranks of other hosts while no launcher listens.
//
// Owner: the job's session; loop thread only. Datagrams carry an HMAC by the secret of this start of the job, which
// its agents and ranks have, and nobody of another user. One that does not fit is dropped before anything is done for
// it. Questions that get no answer in time are forgotten: the launcher may answer those.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/owner_check.h"

namespace muster::agent::inline job {

class OwnerPeers {
 public:
  // Whether the connection with these ends, as the asker sees them, is ours at this host.
  using Answer = std::function<bool(const rendezvous::ConnectionEnds& ends)>;

  OwnerPeers(base::Loop& loop, Answer answer);
  ~OwnerPeers();
  OwnerPeers(const OwnerPeers&) = delete;
  OwnerPeers& operator=(const OwnerPeers&) = delete;

  // `secret`: of this start of the job. Returns the port at which this host answers.
  base::Result<std::uint16_t> open(const std::string& secret);
  // The other hosts of the job, whose connections may come here.
  void set_peers(const v1::Launch& launch);

  // Peers are known, and none has this address.
  bool is_stranger(const base::IpAddress& address) const;

  // `allowed` is called later, from the loop, if the peer's agent says that the connection is ours. Nothing is called
  // otherwise.
  void ask(const rendezvous::ConnectionEnds& ends, std::function<void()> allowed);

 private:
  struct Question {
    std::string datagram;
    base::SockAddr to;
    std::set<std::uint16_t> ports;
    int sent = 0;
    std::function<void()> allowed;
  };

  void readable();
  void arrived(std::string_view datagram, const base::SockAddr& from);
  void send(const std::string& datagram, const base::SockAddr& to);
  void send_again();
  std::string seal(std::string body) const;

  base::Loop& loop_;
  const Answer answer_;
  std::string key_;
  base::UniqueFd socket_;
  bool is_v6_ = true;
  bool has_peers_ = false;
  std::map<base::IpAddress, std::set<std::uint16_t>> ports_;  // of the agents with this address
  std::map<std::string, Question> questions_;                 // by their nonce
  base::Timer readable_;
  base::Timer again_;
};

}  // namespace muster::agent::job
