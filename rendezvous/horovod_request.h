// Reads one HTTP request of a Horovod worker from bytes as they arrive, and makes the head of its reply.
//
// Protocol: HTTP/1.1 as the client of horovod 0.28.1 speaks it (common/gloo/http_store.cc). It sends GET, PUT and
// DELETE of /<scope>/<key>. Paths are not URL-encoded, and Content-Length is always present. The client finds a body's
// length only under the exact spelling `Content-Length`. It follows no redirects and does not know 100 Continue. For
// statuses other than 200 and 404 it retries after 500 ms, three times in total.
//
// Thread: any one; plain values without I/O.
//
//   std::string_view left = received;
//   if (reader.feed(&left) == HorovodRequestReader::State::kComplete) serve(reader.take());
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

struct HorovodRequest {
  enum class Verb { kGet, kPut, kDelete };
  Verb verb = Verb::kGet;
  std::string scope;
  std::string key;
  std::string body;  // for PUT
};

struct HorovodRequestLimits {
  std::size_t max_head_bytes = 16 << 10;
  std::size_t max_body_bytes = 8 << 20;
};

class HorovodRequestReader {
 public:
  enum class State {
    kHead,      // needs more bytes
    kBody,      // needs more bytes; body_size() is the total
    kComplete,  // the caller must call take()
    kRefused,   // final: the caller answers with refusal() and closes; the reader discards further bytes
  };

  explicit HorovodRequestReader(HorovodRequestLimits limits = {}) : limits_(limits) {}

  // Removes the bytes of this request from the front of `bytes`.
  State feed(std::string_view* bytes);
  State state() const { return state_; }
  std::size_t body_size() const {
    return body_size_;
  }                                         // as declared, at most max_body_bytes; 0 until the head is complete
  int refusal() const { return refusal_; }  // an HTTP status

  // Returns the complete request. The reader then begins with the next one.
  HorovodRequest take();

 private:
  void feed_head(std::string_view* bytes);
  void parse_head(std::string_view head);
  void feed_body(std::string_view* bytes);
  void refuse(int status);

  const HorovodRequestLimits limits_;
  State state_ = State::kHead;
  std::string head_;  // received bytes of an incomplete head
  HorovodRequest request_;
  std::size_t body_size_ = 0;
  int refusal_ = 0;
};

// Returns the status line and headers of a reply whose body has `body_size` bytes. With `generation` there is also a
// header Muster-Generation, which tells libmuster's ranks the number of their world. Horovod's client ignores it.
std::string horovod_reply_head(int status, std::size_t body_size, std::optional<int> generation = std::nullopt);

}  // namespace muster::rendezvous
