// Work spread over threads: the one place where the project starts threads to be quicker.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme {

// Threads that this process can run at once: at least 1.
int usable_threads();

// Calls work(thread, item) once for every item below `count`, items in order, each by the next
// thread that is free; calls with the same `thread` do not overlap. The caller is thread 0 and the
// others have ended when this returns. There are never more threads than items or than
// usable_threads(), and fewer than `threads` where the system gives no more. After an exception no
// item is begun; rethrows that of the lowest item, which is the same one whatever the threads.
void parallel_for(int threads, std::size_t count,
                  const std::function<void(std::size_t thread, std::size_t item)>& work);

}  // namespace trireme
