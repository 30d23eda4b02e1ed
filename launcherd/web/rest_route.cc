// The table of /api/v1, and what finds a row.
// Read kRows first.
#include "launcherd/web/rest_route.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/strings.h"
#include "launcherd/service/own_user.h"

namespace muster::launcherd::inline web {
namespace {

using google::protobuf::Message;

// The port serves only launcherd's own user, so that user is the caller.
template <typename Request, typename Answer>
Reply<Answer> one_reply(RestReplies replies) {
  return [replies = std::move(replies)](const base::Result<Answer>& answer) {
    if (answer.ok()) replies.send(*answer);
    replies.done(answer.status());
  };
}
template <typename Request, typename Answer>
Gone run(void (ApiHandler::*serve)(const Request&, Reply<Answer>), ApiHandler& handler, const Request& request,
         RestReplies replies) {
  (handler.*serve)(request, one_reply<Request, Answer>(std::move(replies)));
  return {};
}
template <typename Request, typename Answer>
Gone run(void (ApiHandler::*serve)(const Request&, const std::string&, Reply<Answer>), ApiHandler& handler,
         const Request& request, RestReplies replies) {
  (handler.*serve)(request, own_user(), one_reply<Request, Answer>(std::move(replies)));
  return {};
}
template <typename Request, typename Answer>
Gone run(Gone (ApiHandler::*serve)(const Request&, Replies<Answer>), ApiHandler& handler, const Request& request,
         RestReplies replies) {
  return (handler.*serve)(request, {.send = [send = replies.send](const Answer& answer) { send(answer); },
                                    .done = std::move(replies.done),
                                    .when_written = std::move(replies.when_written)});
}

template <typename Result, typename Request, typename... More>
Request request_type(Result (ApiHandler::*)(const Request&, More...));
template <auto kServe>
using RequestOf = decltype(request_type(kServe));

template <auto kServe>
std::unique_ptr<Message> make_request() {
  return std::make_unique<RequestOf<kServe>>();
}
template <auto kServe>
Gone begin(ApiHandler& handler, const Message& request, RestReplies replies) {
  return run(kServe, handler, static_cast<const RequestOf<kServe>&>(request), std::move(replies));
}

template <auto kServe>
constexpr RestRoute row(std::string_view method, std::string_view path, std::string_view call,
                        const RestStream* stream = nullptr) {
  return {.method = method,
          .path = path,
          .call = call,
          .stream = stream,
          .make_request = make_request<kServe>,
          .begin = begin<kServe>};
}

constexpr RestStream kEvents{
    .event = "event",
    .resume_field = "from_sequence",
    .step = 1,
    .id_of = [](const Message& reply) { return static_cast<const v1::Event&>(reply).sequence(); },
    .begins_at_once = true};
constexpr RestStream kLog{
    .event = "log",
    .resume_field = "from_position",
    .id_of = [](const Message& reply) { return static_cast<const v1::LogChunk&>(reply).next_position(); },
    .begins_at_once = true};
constexpr RestStream kStacks{.event = "stack"};
constexpr RestStream kCleanup{.event = "report"};

// In the order of launcher.proto.
constexpr std::array kRows = {
    row<&ApiHandler::submit>("POST", "jobs", "Submit"),
    row<&ApiHandler::get_job>("GET", "jobs/{job}", "GetJob"),
    row<&ApiHandler::list_jobs>("GET", "jobs", "ListJobs"),
    row<&ApiHandler::list_elements>("GET", "jobs/{job}/elements", "ListElements"),
    row<&ApiHandler::watch>("GET", "jobs/{job}/events", "Watch", &kEvents),
    row<&ApiHandler::logs>("GET", "jobs/{job}/logs", "Logs", &kLog),
    row<&ApiHandler::kill>("POST", "jobs/{job}/kill", "Kill"),
    row<&ApiHandler::signal>("POST", "jobs/{job}/signal", "Signal"),
    row<&ApiHandler::resize>("POST", "jobs/{job}/resize", "Resize"),
    row<&ApiHandler::hold>("POST", "jobs/{job}/hold", "Hold"),
    row<&ApiHandler::release>("POST", "jobs/{job}/release", "Release"),
    row<&ApiHandler::update_job>("POST", "jobs/{job}/update", "UpdateJob"),
    row<&ApiHandler::rerun>("POST", "jobs/{job}/rerun", "Rerun"),
    row<&ApiHandler::stacks>("GET", "jobs/{job}/stacks", "Stacks", &kStacks),
    row<&ApiHandler::explain_hang>("GET", "jobs/{job}/hang", "ExplainHang"),
    row<&ApiHandler::history>("GET", "history", "History"),
    row<&ApiHandler::cleanup>("POST", "cleanup", "Cleanup", &kCleanup),
    row<&ApiHandler::list_hosts>("GET", "hosts", "ListHosts"),
    row<&ApiHandler::drain_host>("POST", "hosts/{host}/drain", "DrainHost"),
    row<&ApiHandler::resume_host>("POST", "hosts/{host}/resume", "ResumeHost"),
    row<&ApiHandler::get_capabilities>("GET", "capabilities", "GetCapabilities"),
};

// Returns the value of the path's field, which is empty if the path names none. nullopt: another path.
std::optional<std::string> value_in(std::string_view pattern, std::span<const std::string> path) {
  const auto words = base::split(pattern, '/');
  if (words.size() != path.size()) return std::nullopt;
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with('{')) {
      value = path[i];
    } else if (words[i] != path[i]) {
      return std::nullopt;
    }
  }
  return value;
}

}  // namespace

std::string_view RestRoute::path_field() const {
  const std::size_t open = path.find('{');
  if (open == std::string_view::npos) return "";
  return path.substr(open + 1, path.find('}') - open - 1);
}

std::span<const RestRoute> rest_routes() {
  return kRows;
}

std::optional<RestMatch> find_rest_route(std::string_view method, std::span<const std::string> path,
                                         std::string& allowed) {
  for (const RestRoute& route : kRows) {
    auto value = value_in(route.path, path);
    if (!value) continue;
    if (route.method == method) return RestMatch{.route = &route, .path_value = *std::move(value)};
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
  }
  return std::nullopt;
}

}  // namespace muster::launcherd::web
