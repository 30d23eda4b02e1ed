// Reads a Horovod worker's HTTP request, and makes the head of a reply.
// Read feed() first, then feed_head(), parse_head() and feed_body().
#include "rendezvous/horovod_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;

constexpr std::string_view kEndOfHead = "\r\n\r\n";
// Memory for a body up to this size is reserved at once. A longer body's memory grows as its bytes arrive.
constexpr std::size_t kReserveAtOnce = 256 << 10;

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Beast's parser of one complete head. It keeps only what the store needs.
class HeadParser final : public http::basic_parser<true> {
 public:
  std::string_view method() const { return method_; }
  std::string_view target() const { return target_; }

 private:
  void on_request_impl(http::verb, boost::beast::string_view method, boost::beast::string_view target, int,
                       BeastError&) override {
    method_ = view(method);
    target_ = view(target);
  }
  void on_response_impl(int, boost::beast::string_view, int, BeastError&) override {}
  void on_field_impl(http::field, boost::beast::string_view, boost::beast::string_view, BeastError&) override {}
  void on_header_impl(BeastError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  std::size_t on_body_impl(boost::beast::string_view body, BeastError&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, boost::beast::string_view, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, boost::beast::string_view body, BeastError&) override {
    return body.size();
  }
  void on_finish_impl(BeastError&) override {}

  std::string_view method_;
  std::string_view target_;
};

// Splits exactly "/<scope>/<key>". Scope and key may be empty and contain ':' or '-', but no '/'.
bool split_target(std::string_view target, HorovodRequest* request) {
  if (!target.starts_with('/')) return false;
  target.remove_prefix(1);
  const auto slash = target.find('/');
  if (slash == std::string_view::npos || target.find('/', slash + 1) != std::string_view::npos) return false;
  request->scope = target.substr(0, slash);
  request->key = target.substr(slash + 1);
  return true;
}

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Payload Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

std::string horovod_reply_head(int status, std::size_t body_size, std::optional<int> generation) {
  const std::string more = generation ? fmt::format("Muster-Generation: {}\r\n", *generation) : "";
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Length: {}\r\n{}\r\n", status, reason(status), body_size, more);
}

HorovodRequestReader::State HorovodRequestReader::feed(std::string_view* bytes) {
  if (state_ == State::kHead) feed_head(bytes);
  if (state_ == State::kBody) feed_body(bytes);
  if (state_ == State::kRefused) *bytes = {};
  return state_;
}

void HorovodRequestReader::feed_head(std::string_view* bytes) {
  // Refuse bytes that cannot begin a method (a TLS greeting, a port scan) at once. Do not wait for the time limit.
  if (head_.empty() && !bytes->empty() && (bytes->front() < 'A' || bytes->front() > 'Z')) return refuse(400);
  const std::size_t before = head_.size();
  const std::size_t taken = std::min(bytes->size(), limits_.max_head_bytes - before);
  head_.append(bytes->substr(0, taken));
  const auto end = head_.find(kEndOfHead, before < kEndOfHead.size() ? 0 : before - kEndOfHead.size() + 1);
  if (end == std::string::npos) {
    bytes->remove_prefix(taken);
    if (head_.size() >= limits_.max_head_bytes) refuse(431);
    return;
  }
  const std::size_t size = end + kEndOfHead.size();
  bytes->remove_prefix(size - before);
  head_.resize(size);
  parse_head(head_);
}

void HorovodRequestReader::parse_head(std::string_view head) {
  HeadParser parser;
  parser.header_limit(static_cast<std::uint32_t>(head.size()));
  parser.body_limit(limits_.max_body_bytes);
  BeastError failed;
  parser.put(boost::asio::buffer(head.data(), head.size()), failed);
  if (failed == http::error::body_limit) return refuse(413);
  if (failed || !parser.is_header_done() || !split_target(parser.target(), &request_)) return refuse(400);
  if (parser.method() == "GET") {
    request_.verb = HorovodRequest::Verb::kGet;
  } else if (parser.method() == "PUT") {
    request_.verb = HorovodRequest::Verb::kPut;
  } else if (parser.method() == "DELETE") {
    request_.verb = HorovodRequest::Verb::kDelete;
  } else {
    return refuse(405);
  }
  const auto length = parser.content_length();
  if (parser.chunked() || (!length && request_.verb == HorovodRequest::Verb::kPut)) return refuse(411);
  body_size_ = static_cast<std::size_t>(length.value_or(0));
  request_.body.reserve(std::min(body_size_, kReserveAtOnce));
  state_ = State::kBody;
}

void HorovodRequestReader::feed_body(std::string_view* bytes) {
  const std::size_t taken = std::min(bytes->size(), body_size_ - request_.body.size());
  request_.body.append(bytes->substr(0, taken));
  bytes->remove_prefix(taken);
  if (request_.body.size() == body_size_) state_ = State::kComplete;
}

void HorovodRequestReader::refuse(int status) {
  state_ = State::kRefused;
  refusal_ = status;
}

HorovodRequest HorovodRequestReader::take() {
  HorovodRequest request = std::exchange(request_, {});
  state_ = State::kHead;
  head_.clear();
  body_size_ = 0;
  return request;
}

}  // namespace muster::rendezvous
