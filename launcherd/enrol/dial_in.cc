#include "launcherd/enrol/dial_in.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/env.h"
#include "base/file.h"
#include "base/hmac.h"
#include "base/ids.h"
#include "base/own_file.h"
#include "base/trusted_folder.h"
#include "launcherd/enrol/site_files.h"
#include "proto/join_file.h"

namespace muster::launcherd::inline enrol {
namespace {

using base::Code;

constexpr std::chrono::hours kValid{30 * 24};
constexpr unsigned kOwnerOnly = 0600;
constexpr std::chrono::seconds kSilence{60};

// A user who may rename files in the folder could restore an old join file that its owner has removed.
base::Status check_folder_of(const std::string& join_file) {
  std::error_code failed;
  const std::string folder = std::filesystem::absolute(join_file, failed).parent_path().string();
  struct stat info {};
  if (failed || ::stat(folder.c_str(), &info) != 0) return base::errno_error(errno, "open the folder " + folder);
  return base::check_folder_of_own_files(info, folder);
}

}  // namespace

// Reads the key of an earlier launcherd, so that its agents can reconnect. Refuses a file that another user wrote,
// because that user would know the token and could add hosts.
base::Status DialIn::read_key() {
  MUSTER_RETURN_IF_ERROR(check_folder_of(options_.at.join_file).with_context("--join-file"));
  auto text = base::read_own_file(options_.at.join_file, proto::kMaxJoinFile);
  if (!text.ok() && text.status().code() == Code::kNotFound) {
    identity_ = "muster-launcherd-" + base::random_hex(8);
    token_ = base::random_hex(32);
    return base::ok_status();
  }
  if (!text.ok()) return text.status().with_context("--join-file");
  auto file = proto::parse_join_file(*text);
  base::wipe(*text);
  if (!file.ok()) {
    return base::data_loss("{}: {}; remove the file, then start the agents again with the new one",
                           options_.at.join_file, file.status().message());
  }
  identity_ = file->identity;
  token_ = file->token;
  return base::ok_status();
}

base::Result<std::shared_ptr<DialIn>> DialIn::open(const base::Clock& clock, DialInOptions options) {
  std::shared_ptr<DialIn> made(new DialIn(clock, std::move(options)));
  const DialInOptions& settled = made->options_;
  MUSTER_RETURN_IF_ERROR(made->read_key());
  made->agents_ = std::make_shared<DialledAgents>(settled.on_gone);
  EnrolmentOptions enrolment;
  enrolment.build_id = settled.build_id;
  enrolment.address = settled.at.address;
  enrolment.port = settled.at.port;
  enrolment.keep_alive = kSilence;
  enrolment.on_note = settled.on_note;
  enrolment.on_refused = settled.on_refused;
  auto server = EnrolmentServer::start(made->pump_, std::move(enrolment));
  if (!server.ok()) return server.status().with_context("--accept-agents");
  made->server_ = *std::move(server);
  // Runs after the agent got its reply, so that commands to the host follow the reply.
  const auto join = [agents = std::weak_ptr(made->agents_), on_join = settled.on_join](const std::string& host) {
    if (const auto here = agents.lock()) on_join(host, here->slots(host));
  };
  MUSTER_RETURN_IF_ERROR(made->server_->open(made->identity_, made->token_, made->agents_, join));
  MUSTER_RETURN_IF_ERROR(made->renew());
  return made;
}

base::Status DialIn::renew() {
  proto::JoinFile file;
  if (options_.at.address) {
    file.addresses = {*options_.at.address};
  } else {
    MUSTER_ASSIGN_OR_RETURN(file.addresses, join_addresses());
  }
  file.port = server_->port();
  file.identity = identity_;
  file.token = token_;
  file.expires = clock_.wall() + kValid;
  file.stays = true;
  const auto home = base::env_var("HOME");
  const auto user = base::env_var("USER");
  file.variables = join_variables(home.value_or(""), user.value_or(""));
  std::string text = proto::format_join_file(file);
  const base::Status written = base::write_file_atomically(options_.at.join_file, text, kOwnerOnly);
  base::wipe(text);
  return written;
}

}  // namespace muster::launcherd::enrol
