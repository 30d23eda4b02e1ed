// PMI-1's name service (MPI_Publish_name of MPICH and its relatives) for one job's ranks on this host. Names are
// stored in the job's keys, so all its hosts find them. They disappear with the job.
// If two ranks on different hosts publish the same name at the same moment, both may succeed. The later port stays.
//
// Owner: the PmiServer. Loop and keys outlive this object.
// Thread: the loop thread only.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "agent/pmi/pmi_line.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline pmi {

class PmiNames {
 public:
  // Sends a whole line to the rank. It is called from the loop, never from within take().
  using Answer = std::function<void(int rank, const std::string& line)>;

  PmiNames(base::Loop& loop, rendezvous::HorovodKeys& keys, Answer answer)
      : loop_(loop), keys_(keys), answer_(std::move(answer)) {}

  // False if the command does not concern names. Otherwise one answer follows, unless this object is destroyed first.
  bool take(int rank, const PmiCommand& command);

 private:
  using Found = std::function<void(const base::Result<rendezvous::HorovodValue>&)>;

  void publish(int rank, const std::string& service, const std::string& port);
  void look_up(int rank, const std::string& service);
  void unpublish(int rank, const std::string& service);
  void get(const std::string& service, Found found);
  std::function<void(base::Status)> answer_of_keys(int rank, const char* result);
  void answer(int rank, const std::string& line);

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const Answer answer_;
  base::Gate gate_;
};

}  // namespace muster::agent::pmi
