// The streams of a host to rank 0's host, over its link to the host above (horovod_tcp_upstream.h).
//
// Owner: the job's stores. It outlives the link.
// Thread: the loop's.
// Errors: a lost link closes all streams that have sent anything. Streams opened before the first link wait for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "rendezvous/byte_streams.h"
#include "rendezvous/horovod_frame.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

// The frame that grants `size` bytes, and its reading. nullopt if no peer sends such a frame.
HorovodValue stream_credit(std::size_t size);
std::optional<std::size_t> parse_stream_credit(std::string_view value);

// The bytes of an answer to kStreamAsk, and their reading. INVALID_ARGUMENT if no peer sends such bytes.
HorovodValue encode_stream_wait(const std::optional<StreamWait>& wait);
base::Result<std::optional<StreamWait>> parse_stream_wait(std::string_view value);

class StreamUplink final : public ByteStreams {
 public:
  // Sends a frame to the host above. Returns false if there is no link; the link then begins to connect.
  using Send = std::function<bool(const HorovodFrame& frame, HorovodValue value)>;

  explicit StreamUplink(Send send) : send_(std::move(send)) {}

  Id open(std::string_view client, Events events) override;
  void send(Id id, std::string_view bytes) override;
  void credit(Id id, std::size_t size) override;
  void close(Id id) override;
  void ask_wait(Id id, Answer done) override;

  // INVALID_ARGUMENT if the frame is not one of the host above.
  base::Status on_frame(const HorovodFrame& frame);
  void connected();
  void lost();

  std::size_t size() const { return streams_.size(); }

 private:
  struct Stream {
    Events events;
    bool is_sent = false;  // the host above knows it
    std::string client{};
    std::vector<std::string> unsent{};  // pieces, while there is no link
    std::vector<Answer> asked{};        // questions without an answer, in order
  };

  base::Status answered(Id id, std::string_view value);
  static void drop_questions(Stream& stream);

  const Send send_;
  std::map<Id, Stream> streams_;
  Id next_ = 1;
};

}  // namespace muster::rendezvous
