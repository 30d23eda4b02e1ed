// RestRoute is one row of the table of /api/v1: which method and path stand for which call of launcher.proto. All else
// derives from the table: how requests are read, which need the token, and the OpenAPI document. Pure.
//
// To add a call: implement it in ApiHandler, and add its row to kRows in rest_route.cc. A unit test fails until each
// call has a row. The field that the path names must be a string of the request.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/api_handler.h"

namespace google::protobuf {
class Message;
}

namespace muster::launcherd::inline web {

// Gets the replies of any call: one and the end, or several and the end.
struct RestReplies {
  std::function<void(const google::protobuf::Message&)> send;
  std::function<void(const base::Status&)> done;
  std::function<void(base::Loop::Task)> when_written;
};

// How the replies of a streaming call become a stream of HTTP.
struct RestStream {
  std::string_view event;  // the name of each server-sent event
  // The field of the request that continues a stream behind the event with the id N, and its value: N + `step`. Empty
  // if the stream cannot be continued.
  std::string_view resume_field{};
  int step = 0;
  std::uint64_t (*id_of)(const google::protobuf::Message& reply) = nullptr;  // set if resume_field is
  // True if the stream begins as soon as the job is found. Else it begins with its first reply, so that an error before
  // that has a status of its own.
  bool begins_at_once = false;
};

struct RestRoute {
  std::string_view method;   // "GET", or "POST" for calls that need the token
  std::string_view path;     // below /api/v1/: "jobs/{job}/kill"; {job} is a field of the request
  std::string_view call;     // of service Launcher: "Kill"
  const RestStream* stream;  // nullptr for a call with one reply
  std::unique_ptr<google::protobuf::Message> (*make_request)();
  // `request` has the type that make_request() returns.
  Gone (*begin)(ApiHandler& handler, const google::protobuf::Message& request, RestReplies replies);

  bool is_write() const { return method == "POST"; }
  // Returns the field that the path names: "job" of "jobs/{job}/kill". Empty if it names none.
  std::string_view path_field() const;
};

std::span<const RestRoute> rest_routes();

inline constexpr std::string_view kRestPrefix = "/api/v1/";

struct RestMatch {
  const RestRoute* route = nullptr;
  std::string path_value{};  // of the path's field; empty if it has none
};

// Finds the row. `path` holds the words below /api/v1. Without a row, `allowed` gets the methods that this path has:
// "GET, POST". It stays empty if there is no such path.
std::optional<RestMatch> find_rest_route(std::string_view method, std::span<const std::string> path,
                                         std::string& allowed);

}  // namespace muster::launcherd::web
