// One HTTP request of a Horovod worker, read from bytes as they come, and the head of its reply.
//
// Protocol: HTTP/1.1 as horovod 0.28.1's client speaks it (common/gloo/http_store.cc): GET, PUT and DELETE of
// /<scope>/<key>, paths not URL-encoded, Content-Length always there. The client finds the body's length only under the
// exact spelling `Content-Length`, follows no redirects and knows no 100 Continue; statuses other than 200 and 404 make
// it try again after 500 ms, three times in all.
//
// Plain values without I/O; any one thread.
//
//   std::string_view left = received;
//   if (reader.feed(&left) == HorovodRequestReader::State::kComplete) serve(reader.take());
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::rendezvous {

struct HorovodRequest {
  enum class Verb { kGet, kPut, kDelete };
  Verb verb = Verb::kGet;
  std::string scope;
  std::string key;
  std::string body;  // of a PUT
};

struct HorovodRequestLimits {
  std::size_t max_head_bytes = 16 << 10;
  std::size_t max_body_bytes = 8 << 20;
};

class HorovodRequestReader {
 public:
  enum class State {
    kHead,      // needs more bytes
    kBody,      // needs more bytes; body_size() says how many in all
    kComplete,  // take() it
    kRefused,   // for good: answer with refusal() and close; further bytes are thrown away
  };

  explicit HorovodRequestReader(HorovodRequestLimits limits = {}) : limits_(limits) {}

  // Takes from the front of `bytes` what belongs to this request.
  State feed(std::string_view* bytes);
  State state() const { return state_; }
  std::size_t body_size() const { return body_size_; }  // declared, at most max_body_bytes; 0 until the head is read
  int refusal() const { return refusal_; }              // an HTTP status

  // The complete request; the reader begins with the next one.
  HorovodRequest take();

 private:
  void feed_head(std::string_view* bytes);
  void parse_head(std::string_view head);
  void feed_body(std::string_view* bytes);
  void refuse(int status);

  const HorovodRequestLimits limits_;
  State state_ = State::kHead;
  std::string head_;  // what came of an incomplete head
  HorovodRequest request_;
  std::size_t body_size_ = 0;
  int refusal_ = 0;
};

// Status line and headers of a reply whose body has `body_size` bytes.
std::string horovod_reply_head(int status, std::size_t body_size);

}  // namespace muster::rendezvous
