// Read openapi_document() at the end first, then operation().
#include "launcherd/web/openapi.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/strings.h"
#include "launcherd/web/rest_route.h"
#include "proto/call_shapes.h"

namespace muster::launcherd::inline web {
namespace {

using base::json_quoted;
using proto::CallShape;

constexpr std::string_view kError =
    R"("Error":{"type":"object","properties":{"code":{"type":"string","examples":["INVALID_ARGUMENT"]},)"
    R"("message":{"type":"string"},"field":{"type":"string","description":"the field of the request that is wrong",)"
    R"("examples":["spec.size"]}},"required":["code","message"]})";
constexpr std::string_view kErrorResponse =
    R"("default":{"description":"the call failed",)"
    R"("content":{"application/json":{"schema":{"$ref":"#/components/schemas/Error"}}}})";
constexpr std::string_view kLastEventId =
    R"({"name":"Last-Event-ID","in":"header","description":"continues behind the event with this id",)"
    R"("schema":{"type":"string"}})";

const CallShape& shape_of(const std::vector<CallShape>& calls, std::string_view name) {
  const auto found = std::ranges::find(calls, name, &CallShape::name);
  MUSTER_CHECK(found != calls.end());
  return *found;
}

std::string reference(std::string_view type) {
  return fmt::format(R"({{"$ref":"#/components/schemas/{}"}})", type);
}

std::string parameters(const RestRoute& route, const CallShape& call) {
  std::vector<std::string> all;
  if (!route.path_field().empty()) {
    all.push_back(fmt::format(R"({{"name":{},"in":"path","required":true,"schema":{{"type":"string"}}}})",
                              json_quoted(route.path_field())));
  }
  if (route.stream != nullptr && !route.stream->resume_field.empty()) all.emplace_back(kLastEventId);
  if (!route.is_write()) {
    for (const proto::QueryField& field : proto::query_fields(call.request, route.path_field())) {
      all.push_back(fmt::format(R"({{"name":{},"in":"query","description":{},{}"schema":{}}})", json_quoted(field.name),
                                json_quoted(field.comment), field.is_list ? R"("style":"form","explode":false,)" : "",
                                field.schema));
    }
  }
  return fmt::format("[{}]", fmt::join(all, ","));
}

std::string response(const RestRoute& route, const CallShape& call) {
  const std::string schema = reference(call.reply);
  if (route.stream == nullptr) {
    return fmt::format(R"({{"description":{},"content":{{"application/json":{{"schema":{}}}}}}})",
                       json_quoted(call.reply), schema);
  }
  return fmt::format(
      R"({{"description":{},"content":{{"text/event-stream":{{"schema":{{"type":"string"}}}},)"
      R"("application/x-ndjson":{{"schema":{}}}}}}})",
      json_quoted(fmt::format("Server-sent events called {}, each with a {} as its data; the last is called end. Or "
                              "lines of JSON, of which the last has the one member end.",
                              route.stream->event, call.reply)),
      schema);
}

std::string first_sentence(const std::string& comment) {
  const std::size_t end = comment.find(". ");
  return end == std::string::npos ? comment : comment.substr(0, end + 1);
}

std::string operation(const RestRoute& route, const CallShape& call) {
  const std::string tag(route.path.substr(0, route.path.find('/')));
  const std::string body = route.is_write()
                               ? fmt::format(R"("requestBody":{{"content":{{"application/json":{{"schema":{}}}}}}},)",
                                             reference(call.request))
                               : "";
  return fmt::format(
      R"({{"operationId":{},"tags":[{}],"summary":{},"description":{},"parameters":{},{}"security":[{}],)"
      R"("responses":{{"200":{},{}}}}})",
      json_quoted(call.name), json_quoted(tag), json_quoted(first_sentence(call.comment)), json_quoted(call.comment),
      parameters(route, call), body, route.is_write() ? R"({"token":[]})" : "", response(route, call), kErrorResponse);
}

std::string paths(const std::vector<CallShape>& calls) {
  std::map<std::string, std::string> by_path;
  for (const RestRoute& route : rest_routes()) {
    std::string& members = by_path["/" + std::string(route.path)];
    if (!members.empty()) members += ',';
    members +=
        fmt::format("{}:{}", json_quoted(base::lower(route.method)), operation(route, shape_of(calls, route.call)));
  }
  std::string all;
  for (const auto& [path, members] : by_path) {
    all += fmt::format("{}{}:{{{}}}", all.empty() ? "" : ",", json_quoted(path), members);
  }
  return all;
}

}  // namespace

std::string openapi_document() {
  const std::vector<CallShape> calls = proto::launcher_calls();
  std::vector<std::string> types;
  for (const RestRoute& route : rest_routes()) {
    const CallShape& call = shape_of(calls, route.call);
    types.push_back(call.request);  // for arguments in URLs, too, whose enumerations it has
    types.push_back(call.reply);
  }
  return fmt::format(
      R"({{"openapi":"3.1.0","info":{{"title":"launcherd","version":{},"description":{}}},)"
      R"("servers":[{{"url":"/api/v1"}}],"paths":{{{}}},"components":{{"schemas":{{{},{}}},)"
      R"("securitySchemes":{{"token":{{"type":"http","scheme":"bearer"}}}}}}}})"
      "\n",
      json_quoted(MUSTER_VERSION),
      json_quoted("The calls of muster.v1.Launcher over HTTP. Calls that change something need --http-write and the "
                  "token of launcherd."),
      paths(calls), kError, proto::message_schemas(types));
}

}  // namespace muster::launcherd::web
