// Bytes of anybody at launcherd's HTTP port: what is read from them does not depend on how they were cut up, and the
// route that comes of it is one of this machine's own, within the bounds that web_route.h promises. The first byte says
// where to cut.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/strings.h"
#include "launcherd/web/http_head.h"
#include "launcherd/web/web_request.h"
#include "launcherd/web/web_route.h"

namespace {

using namespace muster::launcherd;

// As Beast's read does it: what was not used is given again, with more.
std::optional<HttpRequest> read(std::string_view bytes, std::size_t step) {
  HttpParser parser;
  set_limits(parser);
  parser.eager(true);
  std::string waiting;
  while (!bytes.empty() && !parser.is_done()) {
    waiting += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
    boost::system::error_code failed;
    const std::size_t used = parser.put(boost::asio::buffer(waiting), failed);
    waiting.erase(0, used);
    if (failed && failed != boost::beast::http::error::need_more) {
      (void)refusal_of(failed);
      return std::nullopt;
    }
  }
  if (!parser.is_done()) return std::nullopt;
  return request_of(parser);
}

void check(const WebRoute& route, const HttpRequest& request) {
  using Page = WebRoute::Page;
  const bool has_job = route.page == Page::kJob || route.page == Page::kEvents || route.page == Page::kLogs ||
                       route.page == Page::kSpec || route.page == Page::kDownload || route.page == Page::kStacks ||
                       route.page == Page::kHang || route.page == Page::kKill || route.page == Page::kSignal ||
                       route.page == Page::kHold || route.page == Page::kRelease || route.page == Page::kRerun;
  const bool is_clean = std::ranges::none_of(route.job + route.page_token,
                                             [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
  const bool is_bounded = route.job.size() <= request.target.size() && route.tail_lines >= 0 &&
                          route.tail_lines <= 100'000 && route.ranks.size() <= 10'000 && route.first_rank >= 0 &&
                          route.max_ranks >= -1 && route.max_ranks <= 10'000;
  const bool has_file = (route.page == Page::kFile) == (route.file != nullptr);
  if (!is_local_host_header(request.host) || request.method != (is_action(route.page) ? "POST" : "GET") ||
      (route.page != Page::kHistory && has_job == route.job.empty()) || !is_clean || !is_bounded || !has_file) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read(bytes, bytes.size() + 1);
  const auto pieces = read(bytes, data[0] % 64 + 1U);
  if (whole.has_value() != pieces.has_value()) {
    // A long head is refused by its size as soon as that is known, which cutting may put off until it is whole.
    if (bytes.size() < kMaxHttpHead) std::abort();
    return 0;
  }
  if (!whole) return 0;
  if (whole->target != pieces->target || whole->host != pieces->host || whole->last_event_id != pieces->last_event_id ||
      whole->origin != pieces->origin || whole->token != pieces->token || whole->body != pieces->body) {
    std::abort();
  }
  const auto found = find_route(*whole);
  if (const auto* const route = std::get_if<WebRoute>(&found)) check(*route, *whole);
  return 0;
}
