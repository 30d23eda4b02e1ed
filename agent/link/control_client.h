// The agent's end of the control channel: one stream to the launcher, directly or through a relay. After a cut it opens
// a new stream. No message is lost or handled twice.
//
// Limits: while more than kMostUnwritten bytes wait because the launcher does not read, the client reads nothing. The
// launcher then gets no answers and asks for nothing more. While the client does not read, the launcher's pings get no
// answer. The lease limits how long this may last. Numbered messages that wait are bounded by OutgoingMessages.
//
// Owner: the agent.
// Thread: create, use and destroy it on the loop thread, on which it also does its I/O. Callbacks run there, too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/link/launcher_route.h"
#include "base/byte_channel.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/tls_keys.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline link {

// One of `route`, `fd` and `open_channel` is set.
struct ControlClientOptions {
  std::shared_ptr<LauncherRoute> route;
  std::uint16_t port = 0;  // the launcher's control port, with `route`
  // A connected socket, the end of a mux stream. The client cannot reconnect.
  base::UniqueFd fd;
  // Makes a connection that is no socket, for simulations of many agents. The function must call `on_ready` on the loop
  // when the channel has bytes to read, accepts bytes again, or has ended.
  std::function<std::unique_ptr<base::ByteChannel>(base::Loop::Task on_ready)> open_channel;
  base::TlsKey key;  // proto::control_key()
};

struct StreamEnd {
  std::string reason;
  // True if the launcher or its machine ended the stream. False if both became silent.
  bool is_by_launcher = false;
};

class ControlClient {
 public:
  static constexpr std::size_t kMostUnwritten = std::size_t{8} << 20;

  // Called once with every message but acknowledgements, in order. Welcome and Ping are included.
  std::function<void(const v1::LauncherMessage&)> on_message;
  // The stream has ended. The client reconnects, unless the stream was over a mux.
  std::function<void(const StreamEnd& end)> on_cut;
  // Called before each Hello is sent. The handler adds the facts that are true at that moment.
  std::function<void(v1::Hello&)> on_hello;
  // Another launcher than before has answered, and knows nothing of this agent. The client forgets all messages that
  // were not acknowledged, and numbers begin again. The call comes before on_message gets the new launcher's Welcome.
  // Messages that are sent from within the call are the first that the new launcher gets.
  std::function<void()> on_new_launcher;

  // `hello` is sent first on every stream, with resume_from and launcher_instance filled in.
  static std::unique_ptr<ControlClient> start(base::Loop& loop, ControlClientOptions options, v1::Hello hello);
  ~ControlClient();

  // Returns the relay of this stream if the launcher has answered through one.
  std::optional<LauncherRoute::Way> relay() const;
  // Ends the stream and opens another one.
  void reconnect(const std::string& why);

  void send(v1::AgentMessage message);             // numbered
  void send_unnumbered(v1::AgentMessage message);  // dropped while cut, or while the launcher does not read

 private:
  ControlClient();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent::link
