// The ends on rank 0's host of the streams that clients of torch's TCPStore on other hosts use. Each stream is a
// TcpStoreSession, as a connection of the server is. Both kinds share the hub, so barriers and watches span them.
//
// Owner: the job's stores. The hub must outlive it.
// Thread: the loop's.
// Errors: a session that breaks torch's protocol or a limit closes its stream.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/byte_streams.h"
#include "rendezvous/tcp_store_session.h"

namespace muster::rendezvous {

class TcpStoreStreams final : public ByteStreams {
 public:
  // `on_problem` gets one sentence about a stream that was closed because of its bytes. It may be empty.
  TcpStoreStreams(base::Loop& loop, TcpStoreHub& hub, std::function<void(const base::Status&)> on_problem)
      : loop_(loop), hub_(hub), on_problem_(std::move(on_problem)) {}

  Id open(std::string_view client, Events events) override;
  void send(Id id, std::string_view bytes) override;
  void credit(Id id, std::size_t size) override;
  void close(Id id) override;
  void ask_wait(Id id, Answer done) override;

  std::size_t size() const { return streams_.size(); }

 private:
  struct Stream {
    std::unique_ptr<TcpStoreSession> session{};
    std::string client{};
    Events events{};
    std::string held{};                  // bytes that the session does not take yet
    std::size_t window = kStreamWindow;  // how many bytes may be sent
    bool is_pump_due = false;
    bool is_closed = false;  // by the client: what it sent is still served, and replies are dropped
  };
  using Streams = std::map<Id, Stream>;

  void pump_soon(Id id);
  void pump(Id id);
  base::Status serve(Stream& stream);
  base::Status reply(Stream& stream);
  void fail(Streams::iterator stream, const base::Status& why);

  base::Loop& loop_;
  TcpStoreHub& hub_;
  const std::function<void(const base::Status&)> on_problem_;
  Streams streams_;
  Id next_ = 1;
  base::Gate gate_;
};

}  // namespace muster::rendezvous
