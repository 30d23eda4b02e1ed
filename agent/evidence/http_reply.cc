#include "agent/evidence/http_reply.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/strings.h"

namespace muster::agent::inline evidence {
namespace {

constexpr int kMostHeaders = 100;
constexpr long kLongestBody = 1L << 30;

struct ReplyHead {
  int status = 0;
  std::optional<std::size_t> length{};
  bool is_chunked = false;
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

base::Result<int> status_of_line(std::string_view line) {
  // "HTTP/1.1 200 OK"
  const auto words = base::split(line, ' ');
  const auto status = words.size() < 2 ? std::nullopt : base::parse_decimal(words[1], 999);
  if (!line.starts_with("HTTP/1.") || !status) return base::invalid_argument("the answer is not HTTP/1");
  return static_cast<int>(*status);
}

base::Status read_header(std::string_view line, ReplyHead& head) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return base::invalid_argument("a line of the answer is no header");
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = base::trim(line.substr(colon + 1));
  if (name == "transfer-encoding") head.is_chunked = lower(value) == "chunked";
  if (name != "content-length") return base::ok_status();
  const auto length = base::parse_decimal(value, kLongestBody);
  if (!length) return base::invalid_argument("the answer has no valid length");
  head.length = static_cast<std::size_t>(*length);
  return base::ok_status();
}

base::Result<ReplyHead> read_head(LimitedStream& stream) {
  ReplyHead head;
  MUSTER_ASSIGN_OR_RETURN(const std::string first, stream.read_line());
  MUSTER_ASSIGN_OR_RETURN(head.status, status_of_line(first));
  for (int i = 0; i < kMostHeaders; ++i) {
    MUSTER_ASSIGN_OR_RETURN(const std::string line, stream.read_line());
    if (line.empty()) return head;
    MUSTER_RETURN_IF_ERROR(read_header(line, head));
  }
  return base::invalid_argument("the answer has more than {} headers", kMostHeaders);
}

base::Result<std::string> read_chunks(LimitedStream& stream) {
  std::string body;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const std::string line, stream.read_line());
    const std::string_view digits = base::trim(std::string_view(line).substr(0, line.find(';')));
    std::uint32_t size = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
    if (failure != std::errc() || end != digits.data() + digits.size()) {
      return base::invalid_argument("a chunk of the answer has no valid length");
    }
    if (size == 0) return body;  // what may follow are headers, which nobody needs
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, stream.read_exactly(size));
    body += bytes;
    MUSTER_ASSIGN_OR_RETURN(const std::string rest, stream.read_line());
    if (!rest.empty()) return base::invalid_argument("a chunk of the answer is longer than its length");
  }
}

}  // namespace

base::Result<HttpReply> read_http_reply(LimitedStream& stream) {
  MUSTER_ASSIGN_OR_RETURN(const ReplyHead head, read_head(stream));
  HttpReply reply{.status = head.status, .body = {}};
  if (head.is_chunked) {
    MUSTER_ASSIGN_OR_RETURN(reply.body, read_chunks(stream));
  } else if (head.length) {
    MUSTER_ASSIGN_OR_RETURN(reply.body, stream.read_exactly(*head.length));
  } else {
    MUSTER_ASSIGN_OR_RETURN(reply.body, stream.read_to_end());
  }
  return reply;
}

}  // namespace muster::agent::evidence
