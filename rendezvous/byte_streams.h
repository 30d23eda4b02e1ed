// Streams of bytes to rank 0's host, as a TCP connection would carry them, without a connection for each. The clients
// of torch's TCPStore on other hosts use them (tcp_store_proxy.h). Three classes implement the interface. The end on
// rank 0's host is TcpStoreStreams. On all other hosts it is StreamUplink, which uses the one link to the host above.
//
// Flow: each direction of a stream has a window. A sender sends at most kStreamWindow bytes more than the receiver has
// passed on. So a client that does not read costs every host on the way a bounded amount.
//
// Thread: the loop's, for all calls and callbacks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

inline constexpr std::size_t kStreamWindow = std::size_t{256} << 10;
inline constexpr std::size_t kStreamPiece = std::size_t{64} << 10;  // the most bytes of one frame

// What the client of a stream waits for.
struct StreamWait {
  std::string what;  // continues a sentence that begins with the client: "waits for …"
  std::chrono::milliseconds age{};
};

class ByteStreams {
 public:
  using Id = std::uint64_t;
  using Answer = std::function<void(std::optional<StreamWait>)>;

  // No event comes from within open(). An event may call functions of the streams.
  struct Events {
    std::function<void(std::string_view bytes)> on_bytes;
    std::function<void(std::size_t size)> on_credit;  // the other end has passed on so many bytes of send()
    std::function<void()> on_closed;                  // by the other end, or the link is lost; the id is void then
  };

  virtual ~ByteStreams() = default;

  // `client` names the host of the client. Streams of one host have one name.
  virtual Id open(std::string_view client, Events events) = 0;
  // The following do nothing if the stream is closed.
  virtual void send(Id id, std::string_view bytes) = 0;  // at most kStreamPiece bytes, and within the window
  virtual void credit(Id id, std::size_t size) = 0;      // so many bytes of on_bytes were passed on
  virtual void close(Id id) = 0;                         // on_closed is not called
  // Asks the store what the client waits for. `done` is called once, perhaps within this call. nullopt if it waits for
  // nothing, or if the stream is closed.
  virtual void ask_wait(Id id, Answer done) = 0;
};

}  // namespace muster::rendezvous
