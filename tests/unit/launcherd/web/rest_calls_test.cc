// Tests RestCalls with a handler of its own: replies, both forms of streams, and errors.
#include "launcherd/web/rest_calls.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "launcherd/service/own_user.h"
#include "tests/unit/launcherd/web/fake_exchange.h"

namespace muster::launcherd::rest_calls_test {
namespace {

class Handler final : public ApiHandler {
 public:
  void submit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) override {
    v1::SubmitResponse response;
    response.set_job_id(request.name() + " of " + user);
    reply(std::move(response));
  }
  void get_job(const v1::GetJobRequest& request, Reply<v1::Job> reply) override {
    if (request.job() != "k7") return reply(base::not_found("job: unknown job {}", request.job()));
    reply(v1::Job());
  }
  Gone watch(const v1::WatchRequest& request, Replies<v1::Event> replies) override {
    for (std::uint64_t sequence = request.from_sequence(); sequence < 3; ++sequence) {
      v1::Event event;
      event.set_sequence(sequence);
      replies.send(event);
    }
    if (request.from_sequence() == 3) return [this] { has_left = true; };
    replies.done(base::ok_status());
    return {};
  }
  Gone logs(const v1::LogsRequest&, Replies<v1::LogChunk> replies) override {
    v1::LogChunk chunk;
    chunk.set_data("up\xff\n");
    chunk.set_next_position(9);
    replies.send(chunk);
    replies.done(base::data_loss("the output is damaged"));
    return {};
  }
  Gone stacks(const v1::StacksRequest&, Replies<v1::ProcessStack> replies) override {
    replies.done(base::failed_precondition("no ranks run"));
    return {};
  }

  bool has_left = false;
};

class RestCallsTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> ask(const std::string& method, const std::string& target, const std::string& body = "",
                                    const std::string& accept = "") {
    HttpRequest request;
    request.method = method;
    request.target = "/api/v1/" + target;
    request.host = "localhost";
    request.token = "secret-token";
    request.accept = accept;
    request.body = body;
    auto exchange = std::make_shared<FakeExchange>();
    calls_.serve(request, exchange);
    return exchange;
  }

  Handler handler_;
  RestCalls calls_{&handler_, "secret-token"};
};

TEST_F(RestCallsTest, OneReplyIsJson) {
  const auto submitted = ask("POST", "jobs", R"({"name": "night"})");
  EXPECT_EQ(submitted->status, 200);
  EXPECT_EQ(submitted->content_type, "application/json");
  EXPECT_EQ(submitted->body, "{\"job_id\":\"night of " + own_user() + "\"}\n");
}

TEST_F(RestCallsTest, ErrorsHaveCodeMessageAndField) {
  const auto unknown = ask("GET", "jobs/zz");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->body, "{\"code\":\"NOT_FOUND\",\"message\":\"job: unknown job zz\",\"field\":\"job\"}\n");
  EXPECT_EQ(ask("GET", "hosts")->status, 501);  // the handler of this test lacks it
  const auto method = ask("PUT", "jobs");
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->headers, "Allow: POST, GET\n");
}

TEST_F(RestCallsTest, EventsAndLines) {
  const auto events = ask("GET", "jobs/k7/events?from_sequence=1");
  EXPECT_EQ(events->content_type, "text/event-stream");
  EXPECT_TRUE(events->body.starts_with("1|event|{\"sequence\":\"1\"")) << events->body;
  EXPECT_TRUE(events->body.ends_with("}\n|end|{}\n")) << events->body;
  EXPECT_TRUE(events->has_ended);
  const auto lines = ask("GET", "jobs/k7/events?from_sequence=1", "", "application/x-ndjson");
  EXPECT_EQ(lines->content_type, "application/x-ndjson");
  EXPECT_TRUE(lines->body.starts_with("{\"sequence\":\"1\"")) << lines->body;
  EXPECT_TRUE(lines->body.ends_with("\n{\"end\":{}}\n")) << lines->body;
}

TEST_F(RestCallsTest, OutputIsTextAndItsEndNamesTheError) {
  const auto log = ask("GET", "jobs/k7/logs");
  EXPECT_NE(log->body.find("9|log|"), std::string::npos) << log->body;
  EXPECT_NE(log->body.find("\"text\":\"up\xef\xbf\xbd\\u000a\""), std::string::npos) << log->body;
  EXPECT_TRUE(log->body.ends_with("|end|{\"code\":\"DATA_LOSS\",\"message\":\"the output is damaged\"}\n"))
      << log->body;
}

TEST_F(RestCallsTest, AnErrorBeforeAStreamHasAStatus) {
  EXPECT_EQ(ask("GET", "jobs/zz/events")->status, 404);
  EXPECT_EQ(ask("GET", "jobs/k7/stacks")->status, 409);
}

TEST_F(RestCallsTest, AStreamBeginsBeforeItsFirstEventAndEndsWithItsClient) {
  const auto events = ask("GET", "jobs/k7/events?from_sequence=3");
  EXPECT_EQ(events->status, 200);
  EXPECT_FALSE(events->has_ended);
  ASSERT_NE(events->gone, nullptr);
  events->gone();
  EXPECT_TRUE(handler_.has_left);
}

TEST_F(RestCallsTest, ReadsOnlyBodiesThatItWillServe) {
  HttpRequest head;
  head.method = "POST";
  head.target = "/api/v1/jobs";
  head.host = "localhost";
  EXPECT_EQ(calls_.body_limit(head), std::nullopt);  // without the token
  head.token = "secret-token";
  EXPECT_EQ(calls_.body_limit(head), std::size_t{4} << 20);
  head.method = "GET";
  EXPECT_EQ(calls_.body_limit(head), 0U);
}

TEST_F(RestCallsTest, ServesItsOwnDescription) {
  const auto document = ask("GET", "openapi.json");
  EXPECT_EQ(document->status, 200);
  EXPECT_TRUE(base::parse_json(document->body).ok());
  EXPECT_EQ(ask("POST", "openapi.json")->status, 405);
}

}  // namespace
}  // namespace muster::launcherd::rest_calls_test
