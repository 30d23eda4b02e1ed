#include "launcherd/web/rest_route.h"

#include <map>
#include <set>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include "proto/call_shapes.h"

namespace muster::launcherd::rest_route_test {
namespace {

using google::protobuf::FieldDescriptor;

// A call whose client sends a stream has no form in HTTP that curl could write. All others need a row in rest_route.cc.
TEST(RestRoute, EachCallHasOneRoute) {
  std::map<std::string, int> rows;
  for (const RestRoute& route : rest_routes()) ++rows[std::string(route.call)];
  for (const proto::CallShape& call : proto::launcher_calls()) {
    EXPECT_EQ(rows[call.name], call.streams_requests ? 0 : 1) << call.name << ": add it to kRows in rest_route.cc";
    rows.erase(call.name);
  }
  EXPECT_TRUE(rows.empty()) << rows.begin()->first << " is no call";
}

TEST(RestRoute, RowsFitTheirCalls) {
  std::set<std::string> targets;
  const auto calls = proto::launcher_calls();
  for (const RestRoute& route : rest_routes()) {
    const auto call = std::ranges::find(calls, route.call, &proto::CallShape::name);
    ASSERT_NE(call, calls.end()) << route.call;
    const auto request = route.make_request();
    const auto& type = *request->GetDescriptor();
    EXPECT_EQ(type.name(), call->request) << route.call;
    EXPECT_EQ(route.stream != nullptr, call->streams_replies) << route.call;
    EXPECT_TRUE(route.method == "GET" || route.method == "POST") << route.call;
    EXPECT_TRUE(targets.insert(std::string(route.method) + " " + std::string(route.path)).second) << route.path;
    if (!route.path_field().empty()) {
      const FieldDescriptor* const field = type.FindFieldByName(std::string(route.path_field()));
      ASSERT_NE(field, nullptr) << route.path;
      EXPECT_EQ(field->type(), FieldDescriptor::TYPE_STRING) << route.path;
    }
    if (route.stream != nullptr && !route.stream->resume_field.empty()) {
      EXPECT_NE(type.FindFieldByName(std::string(route.stream->resume_field)), nullptr) << route.call;
      EXPECT_NE(route.stream->id_of, nullptr) << route.call;
    }
    // Other replies with bytes would have them in base64: give them a form as text first, as LogChunk has.
    EXPECT_EQ(proto::has_bytes(call->reply), call->reply == "LogChunk") << call->reply;
  }
}

TEST(RestRoute, PathsNameTheirFields) {
  std::string allowed;
  const auto kill = find_rest_route("POST", std::vector<std::string>{"jobs", "k7", "kill"}, allowed);
  ASSERT_TRUE(kill.has_value());
  EXPECT_EQ(kill->route->call, "Kill");
  EXPECT_EQ(kill->path_value, "k7");
  EXPECT_EQ(kill->route->path_field(), "job");
  const auto list = find_rest_route("GET", std::vector<std::string>{"jobs"}, allowed);
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->route->call, "ListJobs");
  EXPECT_EQ(list->route->path_field(), "");
}

TEST(RestRoute, OtherPathsAndMethodsHaveNone) {
  std::string allowed;
  EXPECT_FALSE(find_rest_route("GET", std::vector<std::string>{"nothing"}, allowed).has_value());
  EXPECT_FALSE(find_rest_route("GET", std::vector<std::string>{}, allowed).has_value());
  EXPECT_EQ(allowed, "");
  EXPECT_FALSE(find_rest_route("DELETE", std::vector<std::string>{"jobs"}, allowed).has_value());
  EXPECT_EQ(allowed, "POST, GET");
}

}  // namespace
}  // namespace muster::launcherd::rest_route_test
