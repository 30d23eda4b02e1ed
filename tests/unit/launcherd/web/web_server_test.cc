// Tests the HTTP port over real sockets: replies, refusals, streams, and peers that misbehave.
#include "launcherd/web/web_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "launcherd/service/own_user.h"
#include "tests/unit/launcherd/web/served_port.h"

namespace muster::launcherd::web_server_test {
namespace {

// Answers as launcherd would.
class Handler final : public ApiHandler {
 public:
  void get_job(const v1::GetJobRequest& request, Reply<v1::Job> reply) override {
    if (request.job() != "k7")
      return reply(base::error(base::Code::kNotFound, "there is no job \"{}\"", request.job()));
    v1::Job job;
    job.set_id("k7abcdef");
    reply(std::move(job));
  }
  void list_jobs(const v1::ListJobsRequest& request, Reply<v1::ListJobsResponse> reply) override {
    asked = request;
    v1::ListJobsResponse jobs;
    jobs.set_next_page_token(fmt::format("{}/{}", request.all(), request.page_token()));
    if (!request.all() && request.page_token().empty()) {
      v1::Job& job = *jobs.add_jobs();
      job.set_id("k7abcdef");
      job.set_attempt(3);
      v1::RankLateness& late = *job.add_late();
      late.set_rank(5);
      late.set_host("n1");
      late.set_late(3);
      late.set_operations(4);
    }
    reply(std::move(jobs));
  }
  void get_spec(const std::string& job, Reply<v1::JobSpec> reply) override {
    v1::JobSpec spec;
    spec.set_working_directory("/home/" + job);
    reply(std::move(spec));
  }
  void history(const v1::HistoryRequest& request, Reply<v1::HistoryResponse> reply) override {
    v1::HistoryResponse history;
    history.add_job()->set_cpu_percent(static_cast<int>(request.since().seconds()));
    history.add_hosts()->set_host(request.hosts().empty() ? "all" : request.hosts(0));
    reply(std::move(history));
  }
  Gone stacks(const v1::StacksRequest& request, Replies<v1::ProcessStack> replies) override {
    for (const int rank : request.ranks()) {
      v1::ProcessStack stack;
      stack.set_rank(rank);
      stack.set_command(request.native() ? "native" : "python");
      replies.send(stack);
    }
    replies.done(base::failed_precondition("no ranks run"));
    return {};
  }
  void explain_hang(const v1::ExplainHangRequest& request, Reply<v1::HangReport> reply) override {
    if (request.job() != "k7") return reply(base::failed_precondition("no ranks run"));
    v1::HangReport report;
    report.set_cause("rank 3 is not in allreduce");
    reply(std::move(report));
  }
  void kill(const v1::KillRequest& request, Reply<v1::KillResponse> reply) override {
    killed = request.job();
    reply(v1::KillResponse());
  }
  void hold(const v1::HoldRequest& request, const std::string& user, Reply<v1::HoldResponse> reply) override {
    held = request.job() + " by " + user;
    reply(v1::HoldResponse());
  }
  void release(const v1::ReleaseRequest& request, Reply<v1::ReleaseResponse> reply) override {
    released = request.job();
    reply(v1::ReleaseResponse());
  }
  void rerun(const v1::RerunRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) override {
    if (request.job() == "old") return reply(base::failed_precondition("no environment"));
    v1::SubmitResponse response;
    response.set_job_id(request.job() + request.request_id() + user);
    reply(std::move(response));
  }
  void list_hosts(const v1::ListHostsRequest&, Reply<v1::ListHostsResponse> reply) override {
    v1::ListHostsResponse hosts;
    v1::LauncherHost& host = *hosts.add_hosts();
    host.set_name("n1");
    host.set_kernel("6.1.0");
    host.add_gpus()->set_model("H200");
    reply(std::move(hosts));
  }
  void get_capabilities(const v1::GetCapabilitiesRequest&, Reply<v1::Capabilities> reply) override {
    reply(v1::Capabilities());
  }
  Gone watch(const v1::WatchRequest& request, Replies<v1::Event> replies) override {
    for (std::uint64_t sequence = request.from_sequence(); sequence < 4; ++sequence) {
      v1::Event event;
      event.set_sequence(sequence);
      replies.send(event);
    }
    replies.done(base::ok_status());
    return {};
  }
  // Sends for ever, as fast as the peer reads. Sends three chunks without `follow`, and none of the job "gone".
  Gone logs(const v1::LogsRequest& request, Replies<v1::LogChunk> replies) override {
    if (request.job() == "gone") {
      replies.done(base::not_found("unknown job gone"));
      return {};
    }
    if (!request.follow()) {
      for (const auto stream :
           {v1::OUTPUT_STREAM_KIND_STDOUT, v1::OUTPUT_STREAM_KIND_STDERR, v1::OUTPUT_STREAM_KIND_STDOUT}) {
        v1::LogChunk chunk;
        chunk.set_stream(stream);
        chunk.set_data(fmt::format("{} of {}\n", static_cast<int>(stream), request.ranks_size()));
        replies.send(chunk);
      }
      replies.done(base::ok_status());
      return {};
    }
    send_more(std::move(replies));
    return [this] { gone.set_value(); };
  }

  v1::ListJobsRequest asked;  // read both only after the answer
  std::string killed;
  std::string held;
  std::string released;
  std::promise<void> gone;
  std::atomic<std::size_t> sent = 0;

 private:
  void send_more(Replies<v1::LogChunk> replies) {
    v1::LogChunk chunk;
    chunk.set_data(std::string(100'000, 'x'));
    chunk.set_next_position(++sent);
    replies.send(chunk);
    const auto next = replies.when_written;
    next([this, replies = std::move(replies)] { send_more(replies); });
  }
};

class WebServerTest : public ::testing::Test {
 protected:
  explicit WebServerTest(const std::string& token = {}) {
    std::promise<void> up;
    thread_ = std::thread([this, &up, token] {
      auto server = WebServer::start(loop_, "127.0.0.1:0", &handler_, token);
      EXPECT_TRUE(server.ok()) << server.status();
      url_ = (*server)->url();
      loop_.post([&up] { up.set_value(); });
      loop_.run();
    });
    up.get_future().wait();
  }
  ~WebServerTest() override {
    loop_.stop();
    thread_.join();
  }

  base::UniqueFd connected() const { return served_port::connected(url_); }
  // Sends these bytes and nothing else. Returns the whole reply.
  std::string say(const std::string& bytes) const {
    const base::UniqueFd fd = connected();
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // it may be closed by now
    ::shutdown(fd.get(), SHUT_WR);
    return served_port::rest_of(fd);
  }
  std::string get(const std::string& target, const std::string& more = "",
                  const std::string& host = "localhost") const {
    return say("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n");
  }
  static int status(const std::string& answer) {
    return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
  }
  static std::string body(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

  base::Loop loop_;
  Handler handler_;
  std::string url_;
  std::thread thread_;
};

TEST_F(WebServerTest, ThePageAndItsFiles) {
  const std::string page = get("/");
  EXPECT_EQ(status(page), 200);
  EXPECT_NE(page.find("Content-Security-Policy: default-src 'self'"), std::string::npos) << page;
  EXPECT_NE(body(page).find("<title>launcherd</title>"), std::string::npos);
  EXPECT_NE(get("/page.js").find("Content-Type: text/javascript"), std::string::npos);
  EXPECT_NE(get("/page.css").find("Content-Type: text/css"), std::string::npos);
  EXPECT_EQ(body(get("/healthz")), "ok\n");
  const std::string metrics = body(get("/metrics"));
  EXPECT_NE(metrics.find("muster_host_slots{host=\"n1\"} 0\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("muster_elastic_jobs 1\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("muster_host_late_ratio{host=\"n1\"} 0.750\n"), std::string::npos) << metrics;
}

TEST_F(WebServerTest, AnswersAreThoseOfTheApi) {
  EXPECT_NE(body(get("/api/jobs?all=1&page_token=below-7")).find("\"next_page_token\":\"true/below-7\""),
            std::string::npos);
  EXPECT_NE(body(get("/api/jobs/k7")).find("\"id\":\"k7abcdef\""), std::string::npos);
  EXPECT_NE(body(get("/api/hosts")).find("\"name\":\"n1\""), std::string::npos);
  const std::string none = get("/api/jobs/x%22y");
  EXPECT_EQ(status(none), 404);
  EXPECT_EQ(body(none), "{\"code\":\"NOT_FOUND\",\"message\":\"there is no job \\\"x\\\"y\\\"\"}\n");
  EXPECT_EQ(status(get("/api/jobs/k7/events?from=x")), 400);
  EXPECT_EQ(status(get("/api/nothing")), 404);
  EXPECT_EQ(status(get("/etc/passwd")), 404);
}

// Reads a stream until its last event. A browser that ends its own side first has left.
std::string stream_of(const base::UniqueFd& fd, const std::string& request) {
  EXPECT_TRUE(base::write_all_blocking(fd.get(), request.data(), request.size()).ok());
  return served_port::rest_of(fd);
}

TEST_F(WebServerTest, EventsComeAsAStreamAndGoOnWhereTheyWere) {
  const std::string all = stream_of(connected(), "GET /api/jobs/k7/events?from=2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(all.find("Content-Type: text/event-stream"), std::string::npos);
  EXPECT_NE(body(all).find("id: 2\nevent: event\ndata: {\"sequence\":\"2\""), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("id: \nevent: end\ndata: {}\n\n")) << all;
  const std::string again =
      stream_of(connected(), "GET /api/jobs/k7/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 2\r\n\r\n");
  EXPECT_TRUE(body(again).starts_with("id: 3\n")) << again;
}

TEST_F(WebServerTest, AListOfJobsIsAskedWithItsFilterAndOrder) {
  EXPECT_EQ(status(get("/api/jobs?filter=a%20b&order=size&reverse=1&states=running")), 200);
  EXPECT_EQ(handler_.asked.filter(), "a b");
  EXPECT_EQ(handler_.asked.order(), v1::JOB_ORDER_SIZE);
  EXPECT_TRUE(handler_.asked.reverse());
  ASSERT_EQ(handler_.asked.states_size(), 1);
  EXPECT_EQ(handler_.asked.states(0), v1::JOB_STATE_RUNNING);
}

TEST_F(WebServerTest, HostsAreBriefOrWhole) {
  EXPECT_NE(body(get("/api/hosts/n1")).find("\"model\":\"H200\""), std::string::npos);
  EXPECT_EQ(status(get("/api/hosts/n9")), 404);
  const std::string brief = body(get("/api/hosts?brief=1"));
  EXPECT_NE(brief.find("\"name\":\"n1\""), std::string::npos);
  EXPECT_EQ(brief.find("H200"), std::string::npos) << brief;
  EXPECT_EQ(brief.find("6.1.0"), std::string::npos) << brief;
}

TEST_F(WebServerTest, TheHistoryOfAJobIsWithoutItsHosts) {
  const std::string of_job = body(get("/api/history?job=k7&since=42"));
  EXPECT_NE(of_job.find("\"cpu_percent\":42"), std::string::npos) << of_job;
  EXPECT_NE(of_job.find("\"hosts\":[]"), std::string::npos) << of_job;
  EXPECT_NE(body(get("/api/history?host=n1")).find("\"host\":\"n1\""), std::string::npos);
}

TEST_F(WebServerTest, TheSpecAndTheStacksOfAJob) {
  EXPECT_NE(body(get("/api/jobs/k7/spec")).find("\"working_directory\":\"L2hvbWUvazc=\""), std::string::npos);
  const std::string stacks =
      stream_of(connected(), "GET /api/jobs/k7/stacks?rank=0-1&native=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(stacks.find("event: stack\ndata: {\"rank\":1,"), std::string::npos) << stacks;
  EXPECT_NE(stacks.find("\"command\":\"native\""), std::string::npos) << stacks;
  EXPECT_NE(stacks.find("event: end\ndata: {\"code\":\"FAILED_PRECONDITION\""), std::string::npos) << stacks;
}

TEST_F(WebServerTest, AHangReportIsMadeWhenAskedFor) {
  EXPECT_NE(body(get("/api/jobs/k7/hang")).find("\"cause\":\"rank 3 is not in allreduce\""), std::string::npos);
  EXPECT_EQ(get("/api/jobs/k8/hang").substr(0, 12), "HTTP/1.1 409");
}

TEST_F(WebServerTest, TheOutputIsAFileToSave) {
  const auto download = [&](const std::string& target) {
    return stream_of(connected(), "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  };
  const std::string whole = download("/api/jobs/k7/log.txt?rank=0-2");
  EXPECT_NE(whole.find("Content-Disposition: attachment; filename=\"job-k7.log\"\r\n"), std::string::npos) << whole;
  EXPECT_EQ(body(whole), "1 of 3\n2 of 3\n1 of 3\n");
  EXPECT_EQ(body(download("/api/jobs/k7/log.txt?stream=stderr")), "2 of 0\n");
  const std::string other = download("/api/jobs/%22;x/log.txt");
  EXPECT_NE(other.find("filename=\"job-x.log\"\r\n"), std::string::npos) << other;
  EXPECT_EQ(status(download("/api/jobs/gone/log.txt")), 404);
}

TEST_F(WebServerTest, WhoStopsReadingCostsNoMemoryAndWhoGoesIsTold) {
  base::UniqueFd fd = connected();
  const std::string request = "GET /api/jobs/k7/logs HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_TRUE(base::write_all_blocking(fd.get(), request.data(), request.size()).ok());
  char block[4096];
  for (std::size_t got = 0; got < 1'000'000;) {
    const ssize_t now = ::read(fd.get(), block, sizeof block);
    ASSERT_GT(now, 0);
    got += static_cast<std::size_t>(now);
  }
  EXPECT_EQ(body(get("/healthz")), "ok\n");  // while another stream is not read
  fd.reset();
  EXPECT_EQ(handler_.gone.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_LT(handler_.sent, 1000U);  // only as much as the sockets hold
}

TEST_F(WebServerTest, OnlyThisMachineAndOnlyGet) {
  EXPECT_EQ(status(get("/", "", "evil.example")), 421);
  EXPECT_EQ(status(say("GET / HTTP/1.0\r\n\r\n")), 421);  // no Host header at all
  EXPECT_EQ(status(say("DELETE /api/jobs/k7 HTTP/1.1\r\nHost: localhost\r\n\r\n")), 405);
  EXPECT_EQ(status(say("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello")), 413);
  EXPECT_EQ(WebServer::start(loop_, "0.0.0.0:0", &handler_).status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(WebServer::start(loop_, "10.1.2.3:80", &handler_).status().code(), base::Code::kInvalidArgument);
}

class WebServerWithTokenTest : public WebServerTest {
 protected:
  WebServerWithTokenTest() : WebServerTest("secret-token") {}
};

TEST_F(WebServerTest, WithoutATokenNoActionIsServed) {
  EXPECT_EQ(status(say("POST /api/jobs/k7/kill HTTP/1.1\r\nHost: localhost\r\n\r\n")), 405);
  EXPECT_EQ(status(say("POST /api/jobs/k7/kill HTTP/1.1\r\nHost: localhost\r\nX-Muster-Token: \r\n\r\n")), 405);
  EXPECT_EQ(handler_.killed, "");
}

TEST_F(WebServerWithTokenTest, ActionsNeedTheToken) {
  const auto kill = [&](const std::string& headers, const std::string& method = "POST") {
    return status(say(method + " /api/jobs/k7/kill HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n"));
  };
  EXPECT_EQ(kill(""), 403);
  EXPECT_EQ(kill("X-Muster-Token: secret-tokem\r\n"), 403);
  EXPECT_EQ(kill("X-Muster-Token: secret\r\n"), 403);
  EXPECT_EQ(kill("X-Muster-Token: secret-token\r\nOrigin: http://evil.example\r\n"), 403);
  EXPECT_EQ(kill("X-Muster-Token: secret-token\r\n", "GET"), 404);
  EXPECT_EQ(handler_.killed, "");
  EXPECT_EQ(kill("X-Muster-Token: secret-token\r\nOrigin: http://localhost\r\n"), 200);
  EXPECT_EQ(handler_.killed, "k7");
}

TEST_F(WebServerWithTokenTest, HoldsReleasesAndRerunsJobs) {
  const auto post = [&](const std::string& target, const std::string& token) {
    return say("POST /api/jobs/" + target + " HTTP/1.1\r\nHost: localhost\r\nX-Muster-Token: " + token + "\r\n\r\n");
  };
  for (const char* const target : {"k7/hold", "k7/release", "k7/rerun"}) {
    EXPECT_EQ(status(post(target, "wrong")), 403) << target;
  }
  EXPECT_EQ(handler_.held + handler_.released, "");
  EXPECT_EQ(status(post("k7/hold", "secret-token")), 200);
  EXPECT_EQ(handler_.held, "k7 by " + own_user());
  EXPECT_EQ(status(post("k7/release", "secret-token")), 200);
  EXPECT_EQ(handler_.released, "k7");
  const std::string rerun = post("k7/rerun?request_id=once", "secret-token");
  EXPECT_EQ(status(rerun), 200);
  EXPECT_EQ(body(rerun), "{\"job_id\":\"k7once" + own_user() + "\"}\n");
  EXPECT_EQ(status(post("old/rerun", "secret-token")), 409);
}

// Returns a POST to /api/v1 with the token.
std::string v1_post(const std::string& path, const std::string& headers, const std::string& body) {
  return "POST /api/v1/" + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token\r\n" + headers +
         "\r\n" + body;
}

TEST_F(WebServerWithTokenTest, BodiesOfTheApiAreReadWholeOrInPieces) {
  const std::string json = R"({"at_once": true})";
  EXPECT_EQ(status(say(v1_post("jobs/k7/kill", fmt::format("Content-Length: {}\r\n", json.size()), json))), 200);
  EXPECT_EQ(handler_.killed, "k7");
  const std::string pieces =
      fmt::format("5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", json.substr(0, 5), json.size() - 5, json.substr(5));
  EXPECT_EQ(status(say(v1_post("jobs/k8/kill", "Transfer-Encoding: chunked\r\n", pieces))), 200);
  EXPECT_EQ(handler_.killed, "k8");
  const std::string waited =
      say(v1_post("jobs/k9/kill", fmt::format("Expect: 100-continue\r\nContent-Length: {}\r\n", json.size()), json));
  EXPECT_TRUE(waited.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")) << waited;
  EXPECT_EQ(body(get("/api/v1/jobs/k7")).substr(0, 16), "{\"id\":\"k7abcdef\"");
}

TEST_F(WebServerWithTokenTest, ARefusedBodyIsNotReadAndTheReplyArrives) {
  const std::string large(3 << 20, 'x');
  const std::string length = fmt::format("Content-Length: {}\r\n", large.size());
  const std::string wrong = say("POST /api/v1/jobs/k7/kill HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n" +
                                length + "\r\n" + large);
  EXPECT_EQ(status(wrong), 401) << wrong.substr(0, 200);
  EXPECT_NE(wrong.find("WWW-Authenticate: Bearer"), std::string::npos);
  const std::string too_long = say(v1_post("jobs/k7/kill", "Content-Length: 5000000\r\n", large));
  EXPECT_EQ(status(too_long), 413) << too_long.substr(0, 200);
  EXPECT_EQ(status(say(v1_post("jobs/k7/kill", "Transfer-Encoding: chunked\r\n",
                               "300000\r\n" + large + "\r\n300000\r\n" + large))),
            413);
  EXPECT_EQ(handler_.killed, "");
}

TEST_F(WebServerTest, JunkIsRefusedAndDisturbsNobody) {
  EXPECT_EQ(status(say("\x16\x03\x01 hello\r\n\r\n")), 400);
  EXPECT_EQ(status(get("/" + std::string(8'500, 'x'))), 431);
  EXPECT_EQ(status(get("/%")), 400);
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected());
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::string junk = "GET /api/jobs/k7 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    junk[(seed * 7) % junk.size()] = static_cast<char>(seed * 31);
    say(junk);
  }
  EXPECT_EQ(body(get("/healthz")), "ok\n");
}

}  // namespace
}  // namespace muster::launcherd::web_server_test
