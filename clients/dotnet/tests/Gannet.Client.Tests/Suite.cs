using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Threading.Tasks;

namespace Gannet.Client.Tests
{
    /// <summary>Marks a method without parameters as a test. It may be asynchronous.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class TestAttribute : Attribute
    {
        public TestAttribute(string name)
        {
            Name = name;
        }

        public string Name { get; }
    }

    /// <summary>An assertion that does not hold.</summary>
    internal sealed class FailedException : Exception
    {
        public FailedException(string message)
            : base(message)
        {
        }
    }

    internal static class Assert
    {
        public static void True(bool holds, string message)
        {
            if (!holds)
            {
                throw new FailedException(message);
            }
        }

        public static void Equal(object? expected, object? actual, string context = "")
        {
            True(AreEqual(expected, actual), $"{Show(actual)} instead of {Show(expected)} {context}");
        }

        /// <summary>Returns the value as this type.</summary>
        public static T Is<T>(object? value)
            where T : class =>
            value as T ?? throw new FailedException(
                $"{Show(value)} is no {typeof(T)}: {(value as IErrorResult)?.Message}");

        /// <summary>Returns the code of an error whose message names its remedy.</summary>
        public static ErrorCode Code(object result)
        {
            var error = Is<IErrorResult>(result);
            var details = error.Details;
            True(details.Remedy.Length > 0 && details.Message.EndsWith("; " + details.Remedy), details.Message);
            True(details.Message.StartsWith("cannot execute "), details.Message);
            return error.Code;
        }

        public static void Contains(string part, string text) =>
            True(text.Contains(part), $"'{text}' does not contain '{part}'");

        public static async Task<T> Throws<T>(Func<Task> action)
            where T : Exception
        {
            try
            {
                await action();
            }
            catch (T exception)
            {
                return exception;
            }
            throw new FailedException($"no {typeof(T).Name} was thrown");
        }

        public static T Throws<T>(Action action)
            where T : Exception
        {
            try
            {
                action();
            }
            catch (T exception)
            {
                return exception;
            }
            throw new FailedException($"no {typeof(T).Name} was thrown");
        }

        public static string Show(object? value)
        {
            switch (value)
            {
                case null:
                    return "null";
                case string text:
                    return $"'{text}'";
                case IEnumerable values:
                    return $"[{string.Join(", ", values.Cast<object?>().Select(Show))}]";
                default:
                    return Convert.ToString(value, CultureInfo.InvariantCulture) ?? string.Empty;
            }
        }

        private static bool AreEqual(object? expected, object? actual)
        {
            if (expected is IEnumerable left && actual is IEnumerable right && !(expected is string))
            {
                var (first, second) = (left.Cast<object?>().ToList(), right.Cast<object?>().ToList());
                return first.Count == second.Count && first.Zip(second, AreEqual).All(each => each);
            }
            return expected is IConvertible && actual is IConvertible && expected.GetType() != actual.GetType()
                ? Show(expected) == Show(actual)
                : Equals(expected, actual);
        }
    }

    /// <summary>Runs all tests, and prints one line of TAP for each.</summary>
    internal static class Suite
    {
        private static readonly TimeSpan TestTimeMax = TimeSpan.FromMinutes(2);

        public static async Task<int> RunAsync(string? filter)
        {
            var tests = typeof(Suite).Assembly.GetTypes()
                .SelectMany(type => type.GetMethods(BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic))
                .Select(method => (Name: method.GetCustomAttribute<TestAttribute>()?.Name, Run: ActionOf(method)))
                .Concat(Scenarios.All())
                .Where(test => test.Name != null && (filter == null || test.Name.Contains(filter)))
                .ToList();
            Console.WriteLine("TAP version 13");
            var failed = 0;
            for (var number = 1; number <= tests.Count; number++)
            {
                var (name, run) = tests[number - 1];
                var started = Stopwatch.StartNew();
                var problem = await ProblemOfAsync(run);
                failed += problem == null ? 0 : 1;
                Console.WriteLine(
                    $"{(problem == null ? "ok" : "not ok")} {number} - {name} # time={started.ElapsedMilliseconds}ms");
                if (problem != null)
                {
                    Console.WriteLine($"  {Printable(problem)}");
                }
            }
            Console.WriteLine($"1..{tests.Count}");
            Console.WriteLine($"# tests {tests.Count}");
            Console.WriteLine($"# pass {tests.Count - failed}");
            Console.WriteLine($"# fail {failed}");
            return failed == 0 && tests.Count > 0 ? 0 : 1;
        }

        private static string Printable(string text) => string.Concat(
            text.Select(each => each == '\n' ? "\n  " : char.IsControl(each) ? "?" : each.ToString()));

        private static Func<Task> ActionOf(MethodInfo method) => () =>
            (Task?)method.Invoke(null, null) ?? Task.CompletedTask;

        private static async Task<string?> ProblemOfAsync(Func<Task> run)
        {
            try
            {
                // Another thread, so that a test that blocks does not block the suite.
                var test = Task.Run(run);
                if (await Task.WhenAny(test, Task.Delay(TestTimeMax)) != test)
                {
                    return $"the test has not ended after {TestTimeMax}";
                }
                await test;
                return null;
            }
            catch (TargetInvocationException exception)
            {
                return exception.InnerException?.ToString();
            }
            catch (Exception exception)
            {
                return exception.ToString();
            }
        }
    }

    internal static class Program
    {
        private static async Task<int> Main(string[] arguments)
        {
            try
            {
                return await Suite.RunAsync(arguments.FirstOrDefault());
            }
            finally
            {
                await Servers.StopAsync();
            }
        }
    }
}
