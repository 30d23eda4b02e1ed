// Asks the agents of the job's other hosts about connections to a store: which user owns one, and what the client of
// one waits for. A question is one datagram, and so is its answer. Thus a store can serve ranks of other hosts while no
// launcher listens.
//
// Owner: the job's session.
// Thread: the loop thread only.
// Security: each datagram carries an HMAC by the secret of this start of the job. Only the job's agents and ranks
// have that secret. The receiver drops a datagram with a wrong HMAC before any other work.
// Errors: a question about an owner that gets no answer in time is dropped. The launcher may still answer it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/job/awaited.h"
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
  // True if the connection with these ends, as the asking host sees them, belongs to our user on this host.
  using Answer = std::function<bool(const rendezvous::ConnectionEnds& ends)>;
  // Returns the client at the peer's end of this connection. nullopt if this host serves no such connection.
  using AnswerClient = std::function<std::optional<StoreClient>(const rendezvous::ConnectionEnds& ends)>;

  OwnerPeers(base::Loop& loop, Answer answer, AnswerClient answer_client = {});
  ~OwnerPeers();
  OwnerPeers(const OwnerPeers&) = delete;
  OwnerPeers& operator=(const OwnerPeers&) = delete;

  // `secret` belongs to this start of the job. Returns the port at which this host answers.
  base::Result<std::uint16_t> open(const std::string& secret);
  // Adds other hosts of the job. Ranks on them may connect here.
  void add_peers(const google::protobuf::RepeatedPtrField<v1::JobPeer>& peers);

  // True if the peers are known and none has this address.
  bool is_stranger(const base::IpAddress& address) const;

  // Asks the peer's agent. If that agent answers that the connection is ours, the loop later calls `allowed`.
  // Otherwise nothing is called.
  void ask(const rendezvous::ConnectionEnds& ends, std::function<void()> allowed);
  // Asks the agent at the local end, which serves the connection, for the client at the peer's end. `done` is called
  // once, from the loop or within this call. nullopt if no agent has answered within a second.
  void ask_client(const rendezvous::ConnectionEnds& ends, std::function<void(std::optional<StoreClient>)> done);

 private:
  struct Question {
    std::string datagram;
    base::SockAddr to;
    std::set<std::uint16_t> ports;
    int sent = 0;
    std::function<void()> allowed;                              // only for questions about owners
    std::function<void(std::optional<StoreClient>)> told = {};  // only for questions about clients
  };

  void readable();
  void arrived(std::string_view datagram, const base::SockAddr& from);
  void answered(std::string_view body);
  void asked(std::string_view body, const base::SockAddr& from);
  bool ask_host(const base::IpAddress& host, char kind, const rendezvous::ConnectionEnds& ends, Question& question);
  void send(const std::string& datagram, const base::SockAddr& to);
  void send_again();
  std::string seal(std::string body) const;

  base::Loop& loop_;
  const Answer answer_;
  const AnswerClient answer_client_;
  std::string key_;
  base::UniqueFd socket_;
  bool is_v6_ = true;
  bool has_peers_ = false;
  // The ports at which agents answer, by the address of their host.
  std::map<base::IpAddress, std::set<std::uint16_t>> ports_;
  std::map<std::string, Question> questions_;  // by nonce
  base::Timer readable_;
  base::Timer again_;
};

}  // namespace muster::agent::job
