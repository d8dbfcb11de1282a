using System;
using System.IO;

namespace Gannet.Generate
{
    /// <summary>Writes the generated files: <c>dotnet run --project tools/Gannet.Generate REPOSITORY</c>.</summary>
    public static class Program
    {
        private static int Main(string[] arguments)
        {
            if (arguments.Length != 1)
            {
                Console.Error.WriteLine("cannot generate: an argument is missing; pass the folder of the repository");
                return 2;
            }
            foreach (var file in Generator.Files(arguments[0]))
            {
                File.WriteAllText(Path.Combine(arguments[0], "clients/dotnet", file.Key), file.Value);
                Console.WriteLine(file.Key);
            }
            return 0;
        }
    }
}
