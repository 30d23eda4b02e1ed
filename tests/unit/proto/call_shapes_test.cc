#include "proto/call_shapes.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/json.h"

namespace muster::proto::call_shapes_test {
namespace {

TEST(CallShapes, DescribesCallsWithTheirComments) {
  const auto calls = launcher_calls();
  const auto logs = std::ranges::find(calls, "Logs", &CallShape::name);
  ASSERT_NE(logs, calls.end());
  EXPECT_EQ(logs->request, "LogsRequest");
  EXPECT_EQ(logs->reply, "LogChunk");
  EXPECT_TRUE(logs->streams_replies);
  EXPECT_FALSE(logs->streams_requests);
  EXPECT_TRUE(logs->comment.starts_with("Sends the output of ranks")) << logs->comment;
  EXPECT_FALSE(std::ranges::find(calls, "Submit", &CallShape::name)->streams_replies);
}

TEST(CallShapes, ArgumentsAreFieldsWithoutMessagesInThem) {
  const auto fields = query_fields("LogsRequest", "job");
  std::vector<std::string> names;
  for (const QueryField& field : fields) names.push_back(field.name);
  EXPECT_EQ(names, (std::vector<std::string>{"follow", "ranks", "from_position", "since", "tail_lines"}));
  EXPECT_EQ(fields[4].comment, "only about that many last lines of the present output; 0 means all");
  for (const QueryField& field : fields) EXPECT_TRUE(base::parse_json(field.schema).ok()) << field.schema;
  EXPECT_TRUE(query_fields("ResizeRequest", "job").size() == 1);  // add_hosts is left out
}

TEST(CallShapes, SchemasHaveAllThatTheyReferTo) {
  const auto schemas = base::parse_json("{" + message_schemas({"SubmitRequest", "LogChunk", "Event"}) + "}");
  ASSERT_TRUE(schemas.ok()) << schemas.status();
  for (const char* const name : {"SubmitRequest", "JobSpec", "WantedHost", "OnExit", "Bytes", "LogChunk", "Event"}) {
    EXPECT_NE(schemas->find(name), nullptr) << name;
  }
  const auto* const properties = schemas->find("LogChunk")->find("properties");
  EXPECT_EQ(properties->find("text")->text_at("type"), "string");
  EXPECT_EQ(schemas->find("JobSpec")->find("properties")->find("timeout")->text_at("type"), "string");
  EXPECT_EQ(schemas->find("JobSpec")->find("properties")->find("size")->text_at("description"),
            "ranks; 0 means ranks_per_host on each of `hosts`, else all their slots, else 1");
}

TEST(CallShapes, KnowsWhichMessagesHoldBytes) {
  EXPECT_TRUE(has_bytes("SubmitRequest"));
  EXPECT_TRUE(has_bytes("LogChunk"));
  EXPECT_FALSE(has_bytes("Job"));
}

}  // namespace
}  // namespace muster::proto::call_shapes_test
