using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Paths of the repository, and helpers.</summary>
    internal static class Files
    {
        public static string Library { get; } = Find("Directory.Build.props");

        public static string Repository => Path.GetFullPath(Path.Combine(Library, "../.."));

        public static string Clients => Path.Combine(Repository, "conformance/clients");

        public static string NewFolder(string name)
        {
            var path = Path.Combine(Path.GetTempPath(), $"gannet-dotnet-{name}-{Guid.NewGuid():N}");
            Directory.CreateDirectory(path);
            return path;
        }

        private static string Find(string file)
        {
            for (var at = new DirectoryInfo(AppContext.BaseDirectory); at != null; at = at.Parent)
            {
                if (File.Exists(Path.Combine(at.FullName, file)))
                {
                    return at.FullName;
                }
            }
            throw new FileNotFoundException($"cannot find {file}: the tests are not in the repository; run them there");
        }
    }

    /// <summary>A real server with ports for memcached, Redis and gRPC clients.</summary>
    internal sealed class Server : IAsyncDisposable
    {
        private const int StartsMax = 3;
        private const int SigTerm = 15;
        private const int SigKill = 9;
        private const int SigStop = 19;
        private const int SigCont = 18;
        private readonly Dictionary<string, string> environment;
        private Process process;

        private Server(Dictionary<string, string> environment)
        {
            this.environment = environment;
            process = new Process();
        }

        public int Port { get; } = FreePort();

        public int RespPort { get; } = FreePort();

        public int GrpcPort { get; } = FreePort();

        public string Address => $"127.0.0.1:{GrpcPort}";

        /// <summary>The maximum number of connections, or null for that of the script.</summary>
        public int? ConnectionsMax { get; set; }

        public static Task<Server> StartAsync(params (string Name, string Value)[] environment) =>
            StartAsync(null, environment);

        public static async Task<Server> StartAsync(
            int? connectionsMax, params (string Name, string Value)[] environment)
        {
            for (var attempt = 1; ; attempt++)
            {
                var server = new Server(environment.ToDictionary(each => each.Name, each => each.Value));
                server.ConnectionsMax = connectionsMax;
                try
                {
                    await server.RestartAsync();
                    return server;
                }
                catch (FailedException) when (attempt < StartsMax && server.process.HasExited)
                {
                    // Another process took a port between its choice and its use. The server has waited 1 s for it.
                }
            }
        }

        public static int FreePort()
        {
            var listener = new TcpListener(IPAddress.Loopback, 0);
            listener.Start();
            var port = ((IPEndPoint)listener.LocalEndpoint).Port;
            listener.Stop();
            return port;
        }

        /// <summary>Starts a server on the ports of this one, which has ended.</summary>
        public async Task RestartAsync()
        {
            var start =
                new ProcessStartInfo(Path.Combine(Files.Clients, "serve")) { UseShellExecute = false };
            start.ArgumentList.Add(Port.ToString());
            if (ConnectionsMax is int most)
            {
                start.ArgumentList.Add(most.ToString());
            }
            start.Environment["RESP_PORT"] = RespPort.ToString();
            start.Environment["GRPC_PORT"] = GrpcPort.ToString();
            // The runtime's own libraries are not those of the server.
            start.Environment.Remove("LD_LIBRARY_PATH");
            foreach (var each in environment)
            {
                start.Environment[each.Key] = each.Value;
            }
            process = Process.Start(start)!;
            await Wait.UntilAsync("the server listens", () =>
            {
                Assert.True(!process.HasExited, "the server has ended");
                using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
                try
                {
                    socket.Connect(IPAddress.Loopback, GrpcPort);
                    return true;
                }
                catch (SocketException)
                {
                    return false;
                }
            });
        }

        /// <summary>Ends the server at once, as a crash does.</summary>
        public Task KillAsync() => EndAsync(SigKill);

        /// <summary>Ends the server in an orderly way: it sends GOAWAY.</summary>
        public Task StopAsync() => EndAsync(SigTerm);

        /// <summary>Stops all threads of the server, until <see cref="Resume"/>.</summary>
        public async Task PauseAsync()
        {
            Signal(SigStop);
            bool IsStopped(string thread) =>
                File.ReadAllText(Path.Combine(thread, "stat")).Split(") ").Last().StartsWith("T");
            await Wait.UntilAsync(
                "the server stopped", () => Directory.GetDirectories($"/proc/{process.Id}/task").All(IsStopped));
        }

        public void Resume() => Signal(SigCont);

        /// <summary>
        /// Returns the number of open gRPC connections, as the kernel reports those of the server's port.
        /// </summary>
        public int Connections()
        {
            var port = ":" + GrpcPort.ToString("X4", CultureInfo.InvariantCulture);
            return File.ReadAllLines($"/proc/{process.Id}/net/tcp")
                .Select(row => row.Split(' ', StringSplitOptions.RemoveEmptyEntries))
                .Count(row => row[1].EndsWith(port) && row[3] == "01");
        }

        /// <summary>Sends one command to the port for Redis clients, and returns the line of its reply.</summary>
        public string Redis(params string[] words)
        {
            using var client = new TcpClient("127.0.0.1", RespPort);
            var text = $"*{words.Length}\r\n" + string.Concat(
                words.Select(word => $"${Encoding.UTF8.GetByteCount(word)}\r\n{word}\r\n"));
            var stream = client.GetStream();
            stream.Write(Encoding.UTF8.GetBytes(text));
            return new StreamReader(stream).ReadLine() ?? string.Empty;
        }

        public async ValueTask DisposeAsync()
        {
            if (!process.HasExited)
            {
                Resume();
                await EndAsync(SigTerm);
            }
        }

        [DllImport("libc", SetLastError = true)]
        private static extern int kill(int process, int signal);

        private void Signal(int signal) => Assert.Equal(0, kill(process.Id, signal));

        private async Task EndAsync(int signal)
        {
            if (!process.HasExited)
            {
                Signal(signal);
                await Wait.UntilAsync("the server has ended", () => process.HasExited, 20_000);
            }
        }
    }

    internal static class Wait
    {
        /// <summary>Waits until a condition holds.</summary>
        public static Task UntilAsync(string what, Func<bool> holds, int ms = 10_000) =>
            UntilAsync(what, () => Task.FromResult(holds()), ms);

        /// <summary>Waits until a condition holds.</summary>
        public static async Task UntilAsync(string what, Func<Task<bool>> holds, int ms = 10_000)
        {
            var started = Stopwatch.StartNew();
            while (!await holds())
            {
                Assert.True(started.ElapsedMilliseconds < ms, $"{what}: not within {ms} ms");
                await Task.Delay(5);
            }
        }
    }

    /// <summary>The servers and the client that several tests share.</summary>
    internal static class Servers
    {
        private static readonly Lazy<Task<Server>> SharedServer = new Lazy<Task<Server>>(() => Server.StartAsync());
        private static readonly Lazy<string> Certificates = new Lazy<string>(CreateCertificates);
        private static readonly Lazy<Task<Server>> TlsServer =
            new Lazy<Task<Server>>(() => Server.StartAsync(("TLS", Certificates.Value)));

        /// <summary>The preset of most tests, with a deadline for a busy machine.</summary>
        public static Configuration Configuration { get; } =
            Configurations.Laptop.V1().WithDeadline(TimeSpan.FromSeconds(10)).WithMetrics();

        public static Task<Server> SharedAsync() => SharedServer.Value;

        public static Task<Server> TlsAsync() => TlsServer.Value;

        /// <summary>A folder with a certificate for localhost and its CA.</summary>
        public static string CertificateFolder => Certificates.Value;

        public static async Task<CacheClient> ClientAsync(Configuration? configuration = null) =>
            await CacheClient.CreateAsync((await SharedAsync()).Address, configuration ?? Configuration);

        public static async Task StopAsync()
        {
            foreach (var server in new[] { SharedServer, TlsServer })
            {
                if (server.IsValueCreated)
                {
                    await (await server.Value).DisposeAsync();
                }
            }
            if (Certificates.IsValueCreated)
            {
                Directory.Delete(Certificates.Value, true);
            }
        }

        private static string CreateCertificates()
        {
            var folder = Files.NewFolder("tls");
            var start = new ProcessStartInfo(Path.Combine(Files.Clients, "certificates"), folder)
            {
                UseShellExecute = false,
                RedirectStandardError = true,
            };
            start.Environment.Remove("LD_LIBRARY_PATH");
            using var process = Process.Start(start)!;
            var output = process.StandardError.ReadToEnd();
            process.WaitForExit();
            Assert.True(process.ExitCode == 0, output);
            return folder;
        }
    }

    /// <summary>
    /// A TCP relay to a port: the network between a client and a server. Each connection may hold back its replies, and
    /// all of them may be cut.
    /// </summary>
    internal sealed class Relay : IDisposable
    {
        private readonly TcpListener listener;
        private readonly List<Gate> gates = new List<Gate>();
        private readonly int port;

        // The number of the first connections whose bytes are lost.
        private volatile int lost;

        public Relay(int port, string host = "127.0.0.1")
        {
            this.port = port;
            listener = new TcpListener(IPAddress.Parse(host), 0);
            listener.Start();
            _ = AcceptAsync();
        }

        public string Address => listener.LocalEndpoint.ToString()!;

        /// <summary>The connections in order of arrival.</summary>
        public IReadOnlyList<Gate> Gates
        {
            get
            {
                lock (gates)
                {
                    return gates.ToList();
                }
            }
        }

        /// <summary>True while the bytes of all connections wait, those of later ones too.</summary>
        public bool IsSilent { get; set; }

        /// <summary>Changes the network as a step of a scenario does.</summary>
        public void Network(string action)
        {
            switch (action)
            {
                case "swallow":
                    lost = int.MaxValue;
                    break;
                case "hold":
                case "forward":
                    lost = lost == int.MaxValue ? Gates.Count : lost;
                    break;
                default:
                    throw new FailedException($"the action {action} of the network is unknown");
            }
            IsSilent = action == "hold";
        }

        /// <summary>Closes all connections.</summary>
        public void Cut()
        {
            foreach (var gate in Gates)
            {
                gate.Close();
            }
        }

        public void Dispose()
        {
            listener.Stop();
            Cut();
        }

        private async Task AcceptAsync()
        {
            while (true)
            {
                try
                {
                    var client = await listener.AcceptTcpClientAsync();
                    var server = new TcpClient { NoDelay = true };
                    try
                    {
                        await server.ConnectAsync(IPAddress.Loopback, port);
                    }
                    catch (SocketException)
                    {
                        // The server does not run.
                        client.Close();
                        continue;
                    }
                    client.NoDelay = true;
                    lock (gates)
                    {
                        var number = gates.Count;
                        gates.Add(new Gate(client, server, () => IsSilent, () => number < lost));
                    }
                }
                catch (Exception exception) when (exception is SocketException || exception is ObjectDisposedException)
                {
                    return;
                }
            }
        }

        /// <summary>One connection.</summary>
        internal sealed class Gate
        {
            // Tests that read the bytes send few of them.
            private const int SentMax = 100_000;
            private readonly TcpClient client;
            private readonly TcpClient server;
            private readonly Func<bool> isSilent;
            private readonly Func<bool> isLost;
            private readonly StringBuilder sent = new StringBuilder();
            private volatile bool isHeld;

            public Gate(TcpClient client, TcpClient server, Func<bool> isSilent, Func<bool> isLost)
            {
                this.client = client;
                this.server = server;
                this.isSilent = isSilent;
                this.isLost = isLost;
                _ = ForwardAsync(client, server, false);
                _ = ForwardAsync(server, client, true);
            }

            public bool IsOpen { get; private set; } = true;

            /// <summary>The bytes of the client so far, as characters.</summary>
            public string Sent
            {
                get
                {
                    lock (sent)
                    {
                        return sent.ToString();
                    }
                }
            }

            /// <summary>Holds the replies back, until <see cref="Release"/>.</summary>
            public void Hold() => isHeld = true;

            public void Release() => isHeld = false;

            public void Close()
            {
                IsOpen = false;
                client.Close();
                server.Close();
            }

            private async Task ForwardAsync(TcpClient from, TcpClient to, bool isReply)
            {
                var buffer = new byte[65536];
                try
                {
                    while (true)
                    {
                        var count = await from.GetStream().ReadAsync(buffer);
                        while (count > 0 && ((isReply && isHeld) || isSilent()))
                        {
                            await Task.Delay(2);
                        }
                        if (count == 0)
                        {
                            return;
                        }
                        if (!isReply && sent.Length < SentMax)
                        {
                            lock (sent)
                            {
                                sent.Append(Encoding.GetEncoding("iso-8859-1").GetString(buffer, 0, count));
                            }
                        }
                        if (!isLost())
                        {
                            await to.GetStream().WriteAsync(buffer.AsMemory(0, count));
                        }
                    }
                }
                catch (Exception exception) when (
                    exception is IOException || exception is ObjectDisposedException
                        || exception is InvalidOperationException)
                {
                    // One side has closed the connection.
                }
                finally
                {
                    Close();
                }
            }
        }
    }
}
